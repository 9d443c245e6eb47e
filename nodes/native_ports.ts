/**
 * How the native programs of a run start: their folders, the library in them, their sandbox, and their
 * records; or how they are served from the records of a run.
 */
import type { RunFile } from "../fabric/rack/assembly/run_file.ts";
import type { NativePort } from "./host/native/port.ts";
import { type RecordingPort, recordingPort } from "./host/native/recording_port.ts";
import { createNativePort } from "./native_process.ts";
import { openRecord, readRecords, Records } from "./native_records.ts";
import { sandboxWords } from "./native_sandbox.ts";

/** Of a run's directory: a folder for each host, and in it one for each of its native programs. */
export const NATIVE_FOLDER = "native";

export interface NativePorts {
  /** What starts the native programs of a host in one of its lives. */
  readonly port: (host: string, life: number) => NativePort;
  /** What has passed so far is on record, also where this process is killed. */
  readonly flush: () => void;
}

/**
 * Undefined where the run has no native program.
 * @param options.isRecorded false: nothing will repeat it from a record.
 */
export function nativePorts(
  { directory, native }: Pick<RunFile, "directory" | "native">,
  { isRecorded = true }: { readonly isRecorded?: boolean } = {},
): NativePorts | undefined {
  if (native === undefined) return undefined;
  if ("records" in native) {
    const records = new Records(readRecords(native.records));
    return { port: (host, life) => records.port(host, life), flush: () => {} };
  }
  const { library, bwrap, runs } = native;
  const hidden = directory.startsWith(`${runs}/`) ? [runs] : [runs, directory];
  const ports: RecordingPort[] = [];
  return {
    port(host, life) {
      const live = createNativePort({
        library,
        // A program that starts again finds what it left in the SCM, and no file of its earlier life.
        directory: `${directory}/${NATIVE_FOLDER}/${host}${life === 0 ? "" : `.${life}`}`,
        ...(bwrap !== undefined && {
          wrap: (folder: string) => sandboxWords({ bwrap, hidden, folder }),
        }),
      });
      if (!isRecorded) return live;
      const port = recordingPort(live, {
        open: ({ name }) => openRecord(directory, { host, life, name }),
      });
      ports.push(port);
      return port;
    },
    flush() {
      for (const port of ports) port.flush();
    },
  };
}
