import { ROOT } from "../../console/base/paths.ts";

/**
 * They may use the outside world (clock, randomness, files, network, processes): entry points and
 * the files they share, the runner, the timekeeper's service, the bus, the SCM file store, files that
 * are served over the bus.
 */
const WORLD_FILES: readonly RegExp[] = [
  /^fabric\/bus\/(nats_bus|nats_transport|wall_time)\.ts$/,
  /^fabric\/(runner\/runner|process|lanes|files\/(reading|served_files))\.ts$/,
  /^fabric\/(.+\/)?main\.ts$/,
  /^fabric\/clock\/(clock_service|record_file|timekeeper_main)\.ts$/,
  /^nodes\/(.+\/)?main\.ts$/,
  /^nodes\/(files|load|load_own_programs|native_process|native_records|host\/store\/scm_file)\.ts$/,
];

export function pathInTree(path: string): string {
  return path.startsWith(ROOT + "/") ? path.slice(ROOT.length + 1) : path;
}

export function touchesWorld(path: string): boolean {
  return WORLD_FILES.some((pattern) => pattern.test(path));
}

/** Entry points of processes: only these read arguments and exit. */
const CONSOLE_ENTRIES =
  /^console\/(rack\/(supervise|containers\/parent_main|own\/((probe|loop_watch)_main|answer))|(.+\/)?main)\.ts$/;

/** The command and the web page share it: it returns data and uses no terminal. */
export function isShared(path: string): boolean {
  return path.startsWith("console/") && !CONSOLE_ENTRIES.test(path) && !isTest(path);
}

/** Also suites shared by two implementations, and test helpers. */
export function isTest(path: string): boolean {
  return path.startsWith("tests/") || /_(test|contract|testing)\.ts$/.test(path);
}

export function isModel(path: string): boolean {
  return /^(fabric|nodes)\//.test(path) && !touchesWorld(path);
}
