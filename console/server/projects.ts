/**
 * Files that users upload for their scenarios: data, protocols, rules. Each project is a folder, below
 * which alone its scenarios read, besides what is shipped and what `rack console --allow-read` names.
 */
import type { z } from "zod";
import type { project, projectFile } from "../api/projects.ts";
import { FILE_NAME, PROJECT_LIMITS, PROJECT_NAME } from "../api/page_terms.ts";
import { ifThere } from "../base/files.ts";
import { cacheFolder } from "../base/paths.ts";
import { ApiFailure } from "./doors/errors.ts";

type Project = z.infer<typeof project>;
type ProjectFile = z.infer<typeof projectFile>;

/** Of an upload that is under way. */
const HALF = ".upload-";
/** One that grows no more by then has no console: several may run. */
const HALF_GROWS_MS = 3_600_000;

export class Projects {
  readonly #root: string;

  /** @param root default: in the user's cache. */
  constructor(root: string = `${cacheFolder("console")}/projects`) {
    this.#root = root;
  }

  list(): Project[] {
    return this.#names().map((name) => {
      const files = this.files(name);
      return { name, files: files.length, bytes: sum(files) };
    });
  }

  /** Empty where there is no such project: a project is there with its first file. */
  files(project: string): ProjectFile[] {
    const folder = this.#folder(project);
    const names = [...ifThere(() => [...Deno.readDirSync(folder)]) ?? []]
      .filter(({ name, isFile }) => isFile && FILE_NAME.test(name)).map(({ name }) => name).sort();
    return names.flatMap((name) => {
      const stat = ifThere(() => Deno.statSync(`${folder}/${name}`));
      if (stat === undefined) return [];
      return [{ name, bytes: stat.size, changed: (stat.mtime ?? new Date(0)).toISOString() }];
    });
  }

  /** The folder of a project, made where it is not there. */
  folderOf(project: string): string {
    const folder = this.#folder(project);
    Deno.mkdirSync(folder, { recursive: true, mode: 0o700 });
    return Deno.realPathSync(folder);
  }

  /** Where uploads are, without links; undefined: there are none. */
  get place(): string | undefined {
    return ifThere(() => Deno.realPathSync(this.#root));
  }

  /** Whose files a text names by absolute paths, as the scenario of a run does. */
  namedIn(text: string): string | undefined {
    const { place } = this;
    if (place === undefined) return undefined;
    return this.#names().find((name) => text.includes(`${place}/${name}/`));
  }

  /**
   * Takes an upload, as a whole or not at all; replaces a file of that name.
   * @throws ApiFailure where it does not fit in.
   */
  async put(
    project: string,
    name: string,
    content: ReadableStream<Uint8Array> | null,
  ): Promise<ProjectFile> {
    const isNew = !this.#names().includes(project);
    const target = this.#file(project, name);
    const most = this.#roomFor(project, name);
    // No name of an upload begins with a dot.
    const half = `${this.folderOf(project)}/${HALF}${crypto.randomUUID()}`;
    try {
      const bytes = await write(half, content, most);
      // Others may have come in meanwhile; nothing does between here and the file's name.
      const left = this.#roomFor(project, name);
      if (bytes > left) throw noRoom(left);
      Deno.renameSync(half, target);
    } finally {
      ifThere(() => Deno.removeSync(half));
      if (isNew) this.#forgetEmpty(project);
    }
    return this.files(project).find((file) => file.name === name)!;
  }

  /** Of uploads that a console has not taken to their end, as it was killed. */
  removeHalves(): void {
    for (const { name, isDirectory } of ifThere(() => [...Deno.readDirSync(this.#root)]) ?? []) {
      if (!isDirectory || !PROJECT_NAME.test(name)) continue;
      const folder = this.#folder(name);
      for (const file of ifThere(() => [...Deno.readDirSync(folder)]) ?? []) {
        if (!file.name.startsWith(HALF)) continue;
        const path = `${folder}/${file.name}`, changed = ifThere(() => Deno.statSync(path))?.mtime;
        if (Date.now() - (changed?.getTime() ?? 0) > HALF_GROWS_MS) {
          ifThere(() => Deno.removeSync(path));
        }
      }
    }
  }

  /**
   * Bytes of the largest file that fits in under this name.
   * @throws ApiFailure where none does.
   */
  #roomFor(project: string, name: string): number {
    const names = this.#names();
    if (!names.includes(project) && names.length >= PROJECT_LIMITS.projects) {
      throw full(`There are ${PROJECT_LIMITS.projects} projects, the most: delete one`);
    }
    const others = this.files(project).filter((file) => file.name !== name);
    if (others.length >= PROJECT_LIMITS.files) {
      throw full(`${project} has ${PROJECT_LIMITS.files} files, the most: delete one`);
    }
    const left = PROJECT_LIMITS.projectBytes - sum(others);
    return Math.max(0, Math.min(PROJECT_LIMITS.fileBytes, left));
  }

  /** @throws ApiFailure where there is none. */
  open(project: string, name: string): ReadableStream<Uint8Array> {
    const path = this.#known(project, name);
    return Deno.openSync(path).readable;
  }

  /** @throws ApiFailure where there is none. */
  remove(project: string, name: string): void {
    Deno.removeSync(this.#known(project, name));
    this.#forgetEmpty(project);
  }

  /** Those that have a file: a scenario that names one makes its folder. */
  #names(): string[] {
    return [...ifThere(() => [...Deno.readDirSync(this.#root)]) ?? []]
      .filter(({ name, isDirectory }) => isDirectory && PROJECT_NAME.test(name))
      .map(({ name }) => name).filter((name) => this.files(name).length > 0).sort();
  }

  #folder(project: string): string {
    if (PROJECT_NAME.test(project)) return `${this.#root}/${project}`;
    throw new ApiFailure("bad-request", `${JSON.stringify(project)} cannot name a project`);
  }

  #file(project: string, name: string): string {
    if (FILE_NAME.test(name)) return `${this.#folder(project)}/${name}`;
    throw new ApiFailure("bad-request", `${JSON.stringify(name)} cannot name a file`);
  }

  #known(project: string, name: string): string {
    const path = this.#file(project, name);
    if (this.files(project).some((file) => file.name === name)) return path;
    throw new ApiFailure("not-found", `${project} has no file ${name}`);
  }

  #forgetEmpty(project: string): void {
    if (this.files(project).length > 0) return;
    try {
      Deno.removeSync(this.#folder(project));
    } catch {
      // Another upload is under way.
    }
  }
}

function sum(files: readonly { readonly bytes: number }[]): number {
  return files.reduce((all, { bytes }) => all + bytes, 0);
}

function full(message: string): ApiFailure {
  return new ApiFailure("too-large", message);
}

function noRoom(most: number): ApiFailure {
  return full(`There is room for a file of ${most} bytes at most`);
}

/** The bytes that it has written. */
async function write(
  path: string,
  content: ReadableStream<Uint8Array> | null,
  most: number,
): Promise<number> {
  using file = Deno.openSync(path, { write: true, createNew: true, mode: 0o600 });
  let bytes = 0;
  for await (const chunk of content ?? []) {
    bytes += chunk.length;
    if (bytes > most) throw noRoom(most);
    for (let at = 0; at < chunk.length;) at += file.writeSync(chunk.subarray(at));
  }
  return bytes;
}
