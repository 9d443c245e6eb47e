/**
 * What our checks know about the tree: which file touches the world, which one is a test. The lint
 * plugin and the layer check both read it here.
 */

import { ROOT } from "../../console/base/paths.ts";

/**
 * The only files of fabric/ and nodes/ that may touch the world (clock, randomness, files, network,
 * processes): entry points and what ends them, the runner, the timekeeper's service, the bus, the SCM file store.
 */
const WORLD_FILES: readonly RegExp[] = [
  /^fabric\/bus\/(nats_bus|nats_transport|wall_time)\.ts$/,
  /^fabric\/(runner\/runner|end_with_parent)\.ts$/,
  /^fabric\/(.+\/)?main\.ts$/,
  /^fabric\/clock\/(clock_service|timekeeper_main)\.ts$/,
  /^nodes\/(.+\/)?main\.ts$/,
  /^nodes\/(files|load|host\/store\/scm_file)\.ts$/,
];

/** `path` relative to {@link ROOT}, or as it is where it lies outside. */
export function pathInTree(path: string): string {
  return path.startsWith(ROOT + "/") ? path.slice(ROOT.length + 1) : path;
}

/** True for one of the files that may touch the world. `path` as {@link pathInTree} gives it. */
export function touchesWorld(path: string): boolean {
  return WORLD_FILES.some((pattern) => pattern.test(path));
}

/** The files of console/ that are processes of their own: these alone are started with arguments, and end. */
const CONSOLE_ENTRIES = /^console\/(rack\/supervise|(.+\/)?main)\.ts$/;

/** True for what the command and the web page share: it returns data, and has no terminal. */
export function isShared(path: string): boolean {
  return path.startsWith("console/") && !CONSOLE_ENTRIES.test(path) && !isTest(path);
}

/** True for tests, the suites that two implementations share, and helpers of tests. */
export function isTest(path: string): boolean {
  return path.startsWith("tests/") || /_(test|contract|testing)\.ts$/.test(path);
}

/** True for fabric/ and nodes/, tests included, except the files that touch the world. */
export function isModel(path: string): boolean {
  return /^(fabric|nodes)\//.test(path) && !touchesWorld(path);
}
