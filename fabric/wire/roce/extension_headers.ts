/**
 * Extension headers (`rocev2.md` §1.3), one row each. `opcode.ts` lists the headers of each packet;
 * the Wireshark dissector is generated from the fields.
 */
import { type Field, type HeaderOf, readFields, sizeOf, writeFields } from "../../base/fields.ts";
import { AETH_FIELDS, describeAeth, readAeth, writeAeth } from "./aeth.ts";
import { ATOMIC_ACK_ETH_FIELDS, ATOMIC_ETH_FIELDS } from "./atomic_eth.ts";
import {
  COHERENCE_ETH_FIELDS,
  describeCoherence,
  readCoherenceEth,
  writeCoherenceEth,
} from "./coherence_eth.ts";
import { DETH_FIELDS, readDeth, writeDeth } from "./deth.ts";
import { FETH_FIELDS } from "./feth.ts";
import { HINT_ETH_FIELDS } from "./hint_eth.ts";
import { PERSIST_ETH_FIELDS, readPersistEth, writePersistEth } from "./persist_eth.ts";
import { readReth, RETH_FIELDS, writeReth } from "./reth.ts";
import { describeVerify, DIGEST_ETH_FIELDS, VERIFY_ETH_FIELDS } from "./verify_eth.ts";

interface ExtensionRow<Header> {
  readonly fields: readonly Field[];
  readonly bytes: number;
  readonly read: (view: DataView, at: number) => Header;
  readonly write: (view: DataView, at: number, header: Header) => void;
  /** In a packet of this operation; empty where another text covers it. */
  readonly describe: (header: Header, operation: string) => string;
}

function row<Table extends readonly Field[]>(
  row:
    & { readonly fields: Table }
    & Pick<ExtensionRow<HeaderOf<Table>>, "describe">
    & Partial<ExtensionRow<HeaderOf<Table>>>,
): ExtensionRow<HeaderOf<Table>> {
  const { fields } = row;
  return {
    bytes: sizeOf(fields),
    read: (view, at) => readFields(fields, { view, at }),
    write: (view, at, header) => writeFields(fields, header, { view, at }),
    ...row,
  };
}

function hex(value: number | bigint): string {
  return `0x${value.toString(16)}`;
}

export const EXTENSION_HEADERS = {
  reth: row({
    fields: RETH_FIELDS,
    read: readReth,
    write: writeReth,
    describe: ({ va, rkey, length }) => `va=${hex(va)} rkey=${hex(rkey)} len=${length}`,
  }),
  persistEth: row({
    fields: PERSIST_ETH_FIELDS,
    read: readPersistEth,
    write: writePersistEth,
    describe: ({ version }) => `persist=v${version}`,
  }),
  verifyEth: row({
    fields: VERIFY_ETH_FIELDS,
    describe: describeVerify,
  }),
  digestEth: row({
    fields: DIGEST_ETH_FIELDS,
    describe: ({ crc }) => `crc=${hex(crc)}`,
  }),
  hintEth: row({
    fields: HINT_ETH_FIELDS,
    describe: () => "",
  }),
  coherenceEth: row({
    fields: COHERENCE_ETH_FIELDS,
    read: readCoherenceEth,
    write: writeCoherenceEth,
    describe: describeCoherence,
  }),
  aeth: row({ fields: AETH_FIELDS, read: readAeth, write: writeAeth, describe: describeAeth }),
  deth: row({
    fields: DETH_FIELDS,
    read: readDeth,
    write: writeDeth,
    describe: ({ sourceQpn, qKey }) => `from-qp=${hex(sourceQpn)} qkey=${hex(qKey)}`,
  }),
  atomicEth: row({
    fields: ATOMIC_ETH_FIELDS,
    describe: ({ va, rkey, swapAdd, compare }) =>
      `va=${hex(va)} rkey=${hex(rkey)} swap-add=${swapAdd} compare=${compare}`,
  }),
  atomicAckEth: row({
    fields: ATOMIC_ACK_ETH_FIELDS,
    describe: ({ original }) => `original=${original}`,
  }),
  immdt: row({
    /** Four opaque bytes, here their big-endian value. */
    fields: [["immediate", 32]] as const,
    describe: ({ immediate }) => `imm=${hex(immediate)}`,
  }),
  ieth: row({
    fields: [["rkey", 32]] as const,
    describe: ({ rkey }) => `invalidate=${hex(rkey)}`,
  }),
  feth: row({
    fields: FETH_FIELDS,
    describe: ({ select, placement }) => `select=${select} placement=${placement}`,
  }),
} as const;

export type ExtensionHeader = keyof typeof EXTENSION_HEADERS;

export type Extensions = {
  readonly [Name in ExtensionHeader]?: ReturnType<(typeof EXTENSION_HEADERS)[Name]["read"]>;
};

export const EXTENSION_ROWS = EXTENSION_HEADERS as unknown as Readonly<
  Record<ExtensionHeader, ExtensionRow<Extensions[ExtensionHeader]>>
>;
