import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { IP_HEADER_BYTES, ipEndsIn, serviceIdOfPort, withIpHeader } from "./ip_header.ts";

const ENDS = { sourcePort: 0x1234, source: 0x0a00_0001, destination: 0x0a00_0002 };

describe("IP addressing of the CM (annex A11)", () => {
  it("a service ID has the protocol and the port", () => {
    assert.equal(serviceIdOfPort("tcp", 7471), 0x0000_0000_0106_1d2fn);
    assert.equal(serviceIdOfPort("udp", 7174), 0x0000_0000_0111_1c06n);
  });

  it("the header takes 36 B, of which the offsets are these", () => {
    const bytes = withIpHeader(ENDS, new Uint8Array([9, 8]));
    assert.equal(IP_HEADER_BYTES, 36);
    assert.equal(
      bytes.toHex(),
      "00401234" + "0000000000000000000000000a000001" + "0000000000000000000000000a000002" + "0908",
    );
    assert.deepEqual(ipEndsIn(bytes), ENDS);
  });

  it("what has no such header has no ends", () => {
    const good = withIpHeader(ENDS, new Uint8Array());
    assert.equal(ipEndsIn(good.subarray(1)), undefined);
    assert.equal(ipEndsIn(good.with(0, 0x10)), undefined, "another version");
    assert.equal(ipEndsIn(good.with(1, 0x60)), undefined, "IPv6");
    assert.equal(ipEndsIn(good.with(4, 1)), undefined, "no IPv4 address");
  });
});
