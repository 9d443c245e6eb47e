/**
 * Multicast: group members are learnt from membership reports (IGMP snooping, RFC 4541). A group
 * without reports is flooded; so are 224.0.0.x and frames that are not IPv4. To other switches go
 * reports of all groups, from 0.0.0.0 (§2.1.1: proxy reporting). Between switches, group traffic
 * uses a spanning tree of cables.
 */
import type { SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import {
  decodeReport,
  encodeReport,
  isIgmp,
  REPORT_RECORDS_MAX,
  ROBUSTNESS,
} from "../../fabric/wire/roce/igmp.ts";
import { isGroupAddress } from "../../fabric/wire/roce/neighbour.ts";

const SNOOPED_GROUPS_MAX = 4096;
/** A locally administered address, which no RNIC has. */
const SWITCH_MAC = 0x02ff_ffff_ffff;
/** 224.0.0.x: hosts need not report them (RFC 4541 §2.1.2). */
const LOCAL_LAST = 0xe000_00ff;

export interface GroupTable {
  readonly members: Map<number, Set<number>>;
  readonly tree: readonly number[];
  readonly trunks: readonly number[];
}

export interface OwnFrame {
  readonly port: number;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

export function createGroupTable(plan: SwitchPlan): GroupTable {
  const tree = plan.flood ?? Array.from({ length: plan.ports }, (_, port) => port);
  // A host has a single cable.
  const uplinks = new Set(plan.multipath?.flatMap(([, ports]) => ports));
  return { members: new Map(), tree, trunks: tree.filter((port) => uplinks.has(port)) };
}

/**
 * @returns the group's members, or the whole tree; never the input port, and none where that is not in the tree.
 */
export function groupPorts(table: GroupTable, from: number, bytes: Uint8Array): readonly number[] {
  if (!table.tree.includes(from)) return [];
  const wanted = table.members.get(groupOf(bytes));
  return table.tree.filter((port) => port !== from && (wanted === undefined || wanted.has(port)));
}

function groupOf(bytes: Uint8Array): number {
  if (bytes.length < 34 || bytes[12] !== 0x08 || bytes[13] !== 0x00) return 0;
  const group = ((bytes[30]! << 24) | (bytes[31]! << 16) | (bytes[32]! << 8) | bytes[33]!) >>> 0;
  return isGroupAddress(group) && group > LOCAL_LAST ? group : 0;
}

/**
 * The report came from port `from` and is not forwarded. @returns the reports for the other switches; undefined where
 * the frame is no valid IGMP report: it is forwarded like any other.
 */
export function takeReport(
  table: GroupTable,
  from: number,
  bytes: Uint8Array<ArrayBuffer>,
): OwnFrame[] | undefined {
  if (!isIgmp(bytes)) return undefined;
  const changes = decodeReport(bytes);
  if (changes === undefined) return undefined;
  const frames: OwnFrame[] = [];
  if (!table.tree.includes(from)) return frames;
  for (const { group, member } of changes) {
    if (group <= LOCAL_LAST) continue;
    frames.push(...setMember(table, group, { port: from, member }));
  }
  return frames;
}

export function forgetPort(table: GroupTable, port: number): OwnFrame[] {
  const frames: OwnFrame[] = [];
  for (const group of [...table.members.keys()]) {
    frames.push(...setMember(table, group, { port, member: false }));
  }
  return frames;
}

export function introduce(table: GroupTable, port: number): OwnFrame[] {
  if (!table.trunks.includes(port)) return [];
  const groups = [...table.members.keys()].filter((group) => isWantedFor(table, group, port));
  const frames: OwnFrame[] = [];
  for (let at = 0; at < groups.length; at += REPORT_RECORDS_MAX) {
    const part = groups.slice(at, at + REPORT_RECORDS_MAX);
    frames.push(...report(port, part, true));
  }
  return frames;
}

function setMember(
  table: GroupTable,
  group: number,
  change: { readonly port: number; readonly member: boolean },
): OwnFrame[] {
  const { members, trunks } = table;
  const { port, member } = change;
  const known = members.get(group);
  if (member === (known?.has(port) ?? false)) return [];
  if (known === undefined && members.size >= SNOOPED_GROUPS_MAX) return [];
  const before = trunks.map((trunk) => isWantedFor(table, group, trunk));
  const ports = known ?? new Set<number>();
  if (member) ports.add(port);
  else ports.delete(port);
  if (ports.size > 0) members.set(group, ports);
  else members.delete(group);
  return trunks.flatMap((trunk, i) => {
    const wanted = isWantedFor(table, group, trunk);
    return wanted === before[i] ? [] : report(trunk, [group], wanted);
  });
}

function isWantedFor({ members }: GroupTable, group: number, trunk: number): boolean {
  const ports = members.get(group);
  return ports !== undefined && ports.size > (ports.has(trunk) ? 1 : 0);
}

function report(port: number, groups: readonly number[], member: boolean): OwnFrame[] {
  const changes = groups.map((group) => ({ group, member }));
  const bytes = encodeReport({ mac: SWITCH_MAC, address: 0 }, changes);
  return Array.from({ length: ROBUSTNESS }, () => ({ port, bytes }));
}
