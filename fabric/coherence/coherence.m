-- The coherent card's protocol as a Murphi model: one line, home with its cores and its card, far cards. Written
-- by hand from `coherence_protocol.md`, "Tables"; `rumur` makes a checker of it (Debian's package of that name).
-- It has what the tables have, and no more: no bounded tables, flushes, moves, leases; these are explored in the
-- code itself (`explore.ts`). Each state is printed, and the set of them has to be that of the code's states
-- (`tests/tools/coherence_test.ts`).
--
-- Content is 1 where it is what was written last, else 0: the number of writes is not bounded.

const
  FARS: 2;
  ANSWERS: 5;

type
  Far: 1..FARS;
  Owner: 0..FARS;
  Value: 0..1;
  FarState: enum { I, S, E, M, IS, IM, SM, MI, II };
  Llc: enum { LI, LS, LE, LM };
  Right: enum { NONE, SHARED, OWNED };
  Phase: enum { IDLE, P0, P1, P2, P3 };
  Request: enum { NoRequest, GetS, GetM, PutLine };
  Snoop: enum { NoSnoop, Inv, RecI, RecS };
  Data: enum { NoData, DataS, DataE, WbAck };
  Answer: enum { InvAck, RecIData, RecSData, Complete, Dirty };
  BusRequest: enum { NoBusRequest, RdData, RdInvOwn, WbMtoI, WbMtoS, WbMtoE, BusFlush };
  BusAnswer: enum { NoBusAnswer, RspI, RspS };
  Grant: enum { NoGrant, GrantS, GrantE, Cmp };
  BusSnoop: enum { NoBusSnoop, SnpInv, SnpData };

  FarCard: record
    state: FarState;
    data: Value;
    -- Three queue pairs, in order each. Of REQ, SNP and home's RSP at most one message is on its way; an
    -- assertion holds each.
    request: Request;
    requestData: Value;
    snoop: Snoop;
    reply: Data;
    replyData: Value;
    answers: array[0..ANSWERS-1] of Answer;
    answerData: array[0..ANSWERS-1] of Value;
    count: 0..ANSWERS;
  end;

var
  far: array[Far] of FarCard;

  -- HC
  b: Right;
  sharers: array[Far] of boolean;
  owner: Owner;
  marked: boolean;
  phase: Phase;
  serving: Request;
  requester: Owner;
  waiting: array[Far] of boolean;
  hcSnoop: BusSnoop;
  snoopServed: boolean;
  hcData: Value;

  -- HA
  hd: Right;
  busy: boolean;
  storing: boolean;
  queued: BusRequest;
  llc: Llc;
  cached: Value;
  memory: Value;

  -- The bus
  busRequest: BusRequest;
  busRequestData: Value;
  busAnswer: BusAnswer;
  busAnswerHasData: boolean;
  busAnswerData: Value;
  grant: Grant;
  grantData: Value;
  busSnoop: BusSnoop;
  -- The grant was sent before the snoop, and goes first.
  behindGrant: boolean;

-- Content ------------------------------------------------------------------------------------------------------

-- All copies are old now; the writer's is made 1 behind it.
procedure Age();
begin
  for f: Far do
    far[f].data := 0;
    far[f].requestData := 0;
    far[f].replyData := 0;
    for n := 0 to ANSWERS-1 do far[f].answerData[n] := 0; end;
  end;
  hcData := 0; cached := 0; memory := 0; busRequestData := 0; busAnswerData := 0; grantData := 0;
end;

-- Sending ------------------------------------------------------------------------------------------------------

procedure SendRequest(f: Far; what: Request; data: Value);
begin
  assert far[f].request = NoRequest "one request of a card";
  far[f].request := what;
  far[f].requestData := data;
end;

procedure SendAnswer(f: Far; what: Answer; data: Value);
begin
  assert far[f].count < ANSWERS "room for answers";
  far[f].answers[far[f].count] := what;
  far[f].answerData[far[f].count] := data;
  far[f].count := far[f].count + 1;
end;

procedure SendSnoop(f: Far; what: Snoop);
begin
  assert far[f].snoop = NoSnoop "one snoop of a card";
  far[f].snoop := what;
end;

procedure SendReply(f: Far; what: Data; data: Value);
begin
  assert far[f].reply = NoData "one reply to a card";
  far[f].reply := what;
  far[f].replyData := data;
end;

procedure SendBus(what: BusRequest; data: Value);
begin
  assert busRequest = NoBusRequest "one request of the home card";
  busRequest := what;
  busRequestData := data;
end;

procedure SendBusAnswer(what: BusAnswer; hasData: boolean; data: Value);
begin
  assert busAnswer = NoBusAnswer "one answer of the home card";
  busAnswer := what;
  busAnswerHasData := hasData;
  busAnswerData := data;
end;

procedure SendGrant(what: Grant; data: Value);
begin
  assert grant = NoGrant "one grant";
  grant := what;
  grantData := data;
end;

procedure SendBusSnoop(what: BusSnoop);
begin
  assert busSnoop = NoBusSnoop "one snoop of the bus";
  busSnoop := what;
  behindGrant := grant != NoGrant;
end;

-- HA -----------------------------------------------------------------------------------------------------------

procedure Clean(left: Llc);
begin
  if llc = LM then memory := cached; end;
  llc := left;
  if left = LI then cached := 0; end;
end;

procedure Load();
begin
  if llc = LI then
    cached := memory;
    if hd = NONE then llc := LE; else llc := LS; end;
  end;
  assert cached = 1 "home reads the last write";
end;

procedure Store();
begin
  if llc = LI then cached := memory; end;
  assert cached = 1 "home's store finds the last write";
  Age();
  cached := 1;
  llc := LM;
end;

procedure GrantRead(what: BusRequest);
begin
  if what = RdData then
    if llc = LI then Clean(LI); else Clean(LS); end;
    hd := SHARED;
    SendGrant(GrantS, memory);
  else
    Clean(LI);
    hd := OWNED;
    SendGrant(GrantE, memory);
  end;
end;

procedure FlushHome();
begin
  if llc = LM then Clean(LE); end;
  SendGrant(Cmp, 0);
end;

-- HC -----------------------------------------------------------------------------------------------------------

procedure ToIdle();
begin
  phase := IDLE;
  serving := NoRequest;
  requester := 0;
  hcData := 0;
end;

procedure Unlend();
begin
  for f: Far do sharers[f] := false; end;
  owner := 0;
  marked := false;
end;

procedure LendShared(data: Value);
begin
  sharers[requester] := true;
  b := SHARED;
  phase := P3;
  hcData := 0;
  SendReply(requester, DataS, data);
end;

procedure LendOwned(data: Value);
begin
  Unlend();
  owner := requester;
  b := OWNED;
  phase := P3;
  hcData := 0;
  SendReply(requester, DataE, data);
end;

function IsShared(): boolean;
begin
  for f: Far do if sharers[f] then return true; end; end;
  return false;
end;

function IsWaiting(): boolean;
begin
  for f: Far do if waiting[f] then return true; end; end;
  return false;
end;

-- "SnpInv in idle or P0 … SnpData, the same".
procedure ServeSnoop(what: BusSnoop);
begin
  if owner != 0 then
    hcSnoop := what;
    snoopServed := true;
    waiting[owner] := true;
    if what = SnpInv then SendSnoop(owner, RecI); else SendSnoop(owner, RecS); end;
  elsif !IsShared() then
    b := NONE;
    SendBusAnswer(RspI, false, 0);
  elsif what = SnpData then
    SendBusAnswer(RspS, false, 0);
  else
    hcSnoop := what;
    snoopServed := true;
    for f: Far do
      if sharers[f] then
        waiting[f] := true;
        SendSnoop(f, Inv);
      end;
    end;
  end;
end;

-- A right to share that nothing is lent under is forgotten; a deferred snoop is served.
procedure Settle();
begin
  if phase = IDLE & hcSnoop != NoBusSnoop & !snoopServed then
    alias what: hcSnoop do
      if what = SnpInv then hcSnoop := NoBusSnoop; ServeSnoop(SnpInv);
      else hcSnoop := NoBusSnoop; ServeSnoop(SnpData); end;
    end;
  end;
  if phase = IDLE & hcSnoop = NoBusSnoop & owner = 0 & !IsShared() then b := NONE; end;
end;

procedure EndSnoop();
begin
  hcSnoop := NoBusSnoop;
  snoopServed := false;
  for f: Far do waiting[f] := false; end;
  Settle();
end;

procedure TakeRequest(f: Far; what: Request; data: Value);
begin
  if what = PutLine then
    if owner = f then
      serving := PutLine; requester := f;
      Unlend();
      b := NONE;
      phase := P2;
      SendBus(WbMtoI, data);
    elsif owner != 0 then
      SendReply(f, WbAck, 0);
    else
      serving := PutLine; requester := f;
      phase := P2;
      SendBus(BusFlush, 0);
    end;
  else
    assert owner != f "an owner asks for nothing";
    serving := what; requester := f;
    if owner != 0 then
      phase := P1;
      waiting[owner] := true;
      if what = GetS then SendSnoop(owner, RecS); else SendSnoop(owner, RecI); end;
    else
      phase := P0;
      if what = GetS then SendBus(RdData, 0); else SendBus(RdInvOwn, 0); end;
    end;
  end;
end;

procedure TakeAnswer(f: Far; what: Answer; data: Value);
begin
  if what = Dirty then
    if owner = f & phase != P3 then marked := true; end;
  elsif what = Complete then
    assert phase = P3 & requester = f "Complete in P3";
    ToIdle();
    Settle();
  elsif snoopServed then
    if what = InvAck then
      waiting[f] := false;
      if !IsWaiting() then
        Unlend(); b := NONE;
        SendBusAnswer(RspI, false, 0);
        EndSnoop();
      end;
    elsif what = RecIData then
      Unlend(); b := NONE;
      SendBusAnswer(RspI, true, data);
      EndSnoop();
    else
      Unlend(); sharers[f] := true; b := SHARED;
      SendBusAnswer(RspS, true, data);
      EndSnoop();
    end;
  else
    assert phase = P1 "an answer in P1";
    waiting[f] := false;
    if what = InvAck then
      if !IsWaiting() then LendOwned(hcData); end;
    else
      Unlend();
      hcData := data;
      phase := P2;
      if what = RecSData then sharers[f] := true; end;
      if serving = GetS then b := SHARED; SendBus(WbMtoS, data);
      else b := OWNED; SendBus(WbMtoE, data); end;
    end;
  end;
end;

-- All of a state; `tests/support/murphi_states.ts` reads it, value by value. There each rule but the last one also
-- calls it at its end: so for each state those are printed that it leads to, and then itself.
procedure Show();
begin
  put hd; put busy; put storing; put queued; put llc; put cached; put memory;
  put b; put owner; put marked; put phase; put serving; put requester;
  put hcSnoop; put snoopServed; put hcData;
  put busRequest; put busRequestData;
  put busAnswer; put busAnswerHasData; put busAnswerData;
  put grant; put grantData; put busSnoop; put behindGrant;
  for f: Far do
    put sharers[f]; put waiting[f];
    put far[f].state; put far[f].data;
    put far[f].request; put far[f].requestData;
    put far[f].snoop;
    put far[f].reply; put far[f].replyData;
    put far[f].count;
    for n := 0 to ANSWERS-1 do
      if n < far[f].count then put far[f].answers[n]; put far[f].answerData[n]; end;
    end;
  end;
  put "end\n";
end;

-- Accesses -----------------------------------------------------------------------------------------------------

ruleset f: Far do
  rule "far load" far[f].state = I ==>
    far[f].state := IS;
    SendRequest(f, GetS, 0);
  endrule;

  rule "far store or own" far[f].state = I | far[f].state = S ==>
    if far[f].state = I then far[f].state := IM; else far[f].state := SM; end;
    SendRequest(f, GetM, 0);
  endrule;

  rule "far store, owned" far[f].state = E | far[f].state = M ==>
    assert far[f].data = 1 "a far store finds the last write";
    if far[f].state = E then SendAnswer(f, Dirty, 0); end;
    Age();
    far[f].state := M;
    far[f].data := 1;
  endrule;

  rule "far eviction in silence" far[f].state = S ==>
    far[f].state := I;
    far[f].data := 0;
  endrule;

  rule "far eviction" far[f].state = E | far[f].state = M ==>
    far[f].state := MI;
    SendRequest(f, PutLine, far[f].data);
  endrule;
endruleset;

rule "home load" !busy ==>
  if llc != LI | hd != OWNED then Load();
  else busy := true; storing := false; SendBusSnoop(SnpData); end;
endrule;

rule "home store" !busy ==>
  if hd = NONE then Store();
  else busy := true; storing := true; SendBusSnoop(SnpInv); end;
endrule;

rule "LLC eviction" !busy & llc != LI ==> Clean(LI); endrule;

-- Messages between cards ---------------------------------------------------------------------------------------

ruleset f: Far do
  rule "home takes a request"
    far[f].request != NoRequest & phase = IDLE & hcSnoop = NoBusSnoop
  ==>
  var what: Request; data: Value;
  begin
    what := far[f].request; data := far[f].requestData;
    far[f].request := NoRequest; far[f].requestData := 0;
    TakeRequest(f, what, data);
    Settle();
  endrule;

  rule "home takes an answer" far[f].count > 0 ==>
  var what: Answer; data: Value;
  begin
    what := far[f].answers[0]; data := far[f].answerData[0];
    for n := 0 to ANSWERS-2 do
      far[f].answers[n] := far[f].answers[n+1];
      far[f].answerData[n] := far[f].answerData[n+1];
    end;
    far[f].answers[ANSWERS-1] := InvAck; far[f].answerData[ANSWERS-1] := 0;
    far[f].count := far[f].count - 1;
    for n := 0 to ANSWERS-1 do
      if n >= far[f].count then far[f].answers[n] := InvAck; far[f].answerData[n] := 0; end;
    end;
    TakeAnswer(f, what, data);
  endrule;

  rule "far card takes a snoop" far[f].snoop != NoSnoop ==>
  var what: Snoop;
  begin
    what := far[f].snoop;
    far[f].snoop := NoSnoop;
    if what = Inv then
      assert far[f].state = I | far[f].state = S | far[f].state = IS | far[f].state = IM |
        far[f].state = SM "an invalidation";
      if far[f].state = S then far[f].state := I; end;
      if far[f].state = SM then far[f].state := IM; end;
      far[f].data := 0;
      SendAnswer(f, InvAck, 0);
    else
      assert far[f].state = E | far[f].state = M | far[f].state = MI "a recall";
      if far[f].state = MI then
        SendAnswer(f, RecIData, far[f].data);
        far[f].state := II;
        far[f].data := 0;
      elsif what = RecI then
        SendAnswer(f, RecIData, far[f].data);
        far[f].state := I;
        far[f].data := 0;
      else
        SendAnswer(f, RecSData, far[f].data);
        far[f].state := S;
      end;
    end;
  endrule;

  rule "far card takes data to share" far[f].reply = DataS ==>
    assert far[f].state = IS "data to share";
    assert far[f].replyData = 1 "a far load reads the last write";
    far[f].state := S;
    far[f].data := far[f].replyData;
    far[f].reply := NoData; far[f].replyData := 0;
    SendAnswer(f, Complete, 0);
  endrule;

  -- The access was a store, or asked for ownership alone.
  ruleset stores: boolean do
    rule "far card takes ownership" far[f].reply = DataE ==>
      assert far[f].state = IM | far[f].state = SM "ownership";
      assert far[f].replyData = 1 "ownership comes with the last write";
      far[f].state := E;
      far[f].data := far[f].replyData;
      far[f].reply := NoData; far[f].replyData := 0;
      SendAnswer(f, Complete, 0);
      if stores then
        SendAnswer(f, Dirty, 0);
        Age();
        far[f].state := M;
        far[f].data := 1;
      end;
    endrule;
  endruleset;

  rule "far card takes WbAck" far[f].reply = WbAck ==>
    assert far[f].state = MI | far[f].state = II "WbAck";
    far[f].state := I;
    far[f].data := 0;
    far[f].reply := NoData; far[f].replyData := 0;
  endrule;
endruleset;

-- The bus ------------------------------------------------------------------------------------------------------

rule "home card takes a grant" grant != NoGrant ==>
var what: Grant; data: Value;
begin
  what := grant; data := grantData;
  grant := NoGrant; grantData := 0;
  behindGrant := false;
  if what = GrantS then
    assert phase = P0 & serving = GetS "a grant to share";
    LendShared(data);
  elsif what = GrantE then
    assert phase = P0 & serving = GetM "a grant of ownership";
    for f: Far do
      if sharers[f] & f != requester then
        waiting[f] := true;
        SendSnoop(f, Inv);
      end;
    end;
    if IsWaiting() then
      b := OWNED;
      phase := P1;
      hcData := data;
    else
      LendOwned(data);
    end;
  else
    assert phase = P2 "Cmp in P2";
    if serving = GetS then LendShared(hcData);
    elsif serving = GetM then LendOwned(hcData);
    else
      SendReply(requester, WbAck, 0);
      ToIdle();
      Settle();
    end;
  end;
endrule;

rule "home card takes a snoop" busSnoop != NoBusSnoop & !behindGrant ==>
var what: BusSnoop;
begin
  what := busSnoop;
  busSnoop := NoBusSnoop;
  if phase = IDLE | phase = P0 then
    ServeSnoop(what);
    Settle();
  else
    hcSnoop := what;
    snoopServed := false;
  end;
endrule;

rule "host agent takes a request" busRequest != NoBusRequest ==>
var what: BusRequest; data: Value;
begin
  what := busRequest; data := busRequestData;
  busRequest := NoBusRequest; busRequestData := 0;
  switch what
  case RdData, RdInvOwn:
    if busy then queued := what; else GrantRead(what); end;
  case BusFlush:
    if busy & hd = OWNED then queued := what; else FlushHome(); end;
  case WbMtoI, WbMtoS, WbMtoE:
    assert hd = OWNED "a write-back of what is lent";
    memory := data;
    if what = WbMtoI then hd := NONE; elsif what = WbMtoS then hd := SHARED; end;
    SendGrant(Cmp, 0);
  end;
endrule;

rule "host agent takes an answer" busAnswer != NoBusAnswer ==>
var next: BusRequest;
begin
  assert busy "an answer to a snoop";
  if busAnswerHasData then memory := busAnswerData; end;
  if busAnswer = RspI then hd := NONE; else hd := SHARED; end;
  busAnswer := NoBusAnswer; busAnswerHasData := false; busAnswerData := 0;
  busy := false;
  if storing then
    assert hd = NONE "a store has the line alone";
    Store();
  else
    Load();
  end;
  storing := false;
  next := queued;
  queued := NoBusRequest;
  if next = RdData | next = RdInvOwn then GrantRead(next);
  elsif next = BusFlush then FlushHome(); end;
endrule;

-- What is compared ---------------------------------------------------------------------------------------------

function IsQuiet(): boolean;
begin
  for f: Far do
    if far[f].request != NoRequest | far[f].snoop != NoSnoop | far[f].reply != NoData |
      far[f].count > 0 then return false; end;
    if far[f].state != I & far[f].state != S & far[f].state != E & far[f].state != M then
      return false;
    end;
  end;
  return phase = IDLE & hcSnoop = NoBusSnoop & !busy & busRequest = NoBusRequest &
    busAnswer = NoBusAnswer & grant = NoGrant & busSnoop = NoBusSnoop;
end;

-- Changes nothing: it prints.
rule "state" true ==>
  put "state\n";
  Show();
endrule;

startstate
begin
  clear far; clear sharers; clear waiting;
  for f: Far do far[f].state := I; far[f].request := NoRequest; end;
  b := NONE; owner := 0; marked := false; phase := IDLE; serving := NoRequest; requester := 0;
  hcSnoop := NoBusSnoop; snoopServed := false; hcData := 0;
  hd := NONE; busy := false; storing := false; queued := NoBusRequest; llc := LI; cached := 0;
  memory := 1;
  busRequest := NoBusRequest; busRequestData := 0;
  busAnswer := NoBusAnswer; busAnswerHasData := false; busAnswerData := 0;
  grant := NoGrant; grantData := 0; busSnoop := NoBusSnoop; behindGrant := false;
end;

-- C-09 ---------------------------------------------------------------------------------------------------------

invariant "single writer or many readers"
  forall f: Far do
    (far[f].state = E | far[f].state = M) ->
      (llc = LI & forall g: Far do g = f | (far[g].state != S & far[g].state != SM &
        far[g].state != E & far[g].state != M) endforall)
  endforall;

invariant "copies that can be read are fresh"
  (llc != LI -> cached = 1) &
  forall f: Far do
    (far[f].state = S | far[f].state = SM | far[f].state = E | far[f].state = M) -> far[f].data = 1
  endforall;

invariant "clean E"
  (llc = LE -> cached = memory) &
  forall f: Far do far[f].state = E -> far[f].data = memory endforall;

invariant "inclusion"
  forall f: Far do
    ((far[f].state = E | far[f].state = M) -> owner = f) &
    ((far[f].state = S | far[f].state = SM) -> (sharers[f] | owner = f))
  endforall &
  (b = OWNED -> hd = OWNED) & (b = SHARED -> hd != NONE);

invariant "the last write is not lost"
  IsQuiet() -> (memory = 1 | llc = LM | exists f: Far do far[f].state = M endexists);

-- From every state, whatever happened, a quiet one can be reached. The code's explorer asks for more: that every run
-- whose links are fair answers each access (`fair_cycles.ts`).
liveness "a quiet state can be reached" IsQuiet();
