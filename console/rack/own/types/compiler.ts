/**
 * Own programs as TypeScript's compiler sees them: by the `deno.json` above them, as an editor
 * does, but with the modules of this clone, which runs them. Only the user's files are checked, and
 * the clone's types that they use.
 */
import ts from "typescript";
import { textIfThere } from "../../../base/files.ts";
import { fromFileUrl, projectFile, ROOT, toFileUrl } from "../../../base/paths.ts";

export interface Compiled {
  readonly program: ts.Program;
  readonly checker: ts.TypeChecker;
  readonly own: readonly ts.SourceFile[];
  /** Imported JavaScript whose types another file has. */
  readonly typedElsewhere: readonly string[];
  readonly configs: readonly string[];
  readonly modules: readonly string[];
  readonly isWhole: boolean;
  readonly wrong: readonly ts.Diagnostic[];
}

type Names = Readonly<Record<string, string>>;

interface ImportMap {
  readonly imports: Names;
  readonly scopes: Readonly<Record<string, Names>>;
}

interface Config {
  readonly files: readonly string[];
  readonly options: ts.CompilerOptions;
  readonly types: readonly string[];
  readonly map: ImportMap;
  readonly wrong: readonly ts.Diagnostic[];
}

const DEFAULTS: ts.CompilerOptions = {
  strict: true,
  noImplicitOverride: true,
  useUnknownInCatchVariables: true,
};

const FIXED: ts.CompilerOptions = {
  allowImportingTsExtensions: true,
  allowJs: true,
  isolatedModules: true,
  lib: ["lib.esnext.d.ts"],
  module: ts.ModuleKind.ESNext,
  moduleDetection: ts.ModuleDetectionKind.Force,
  moduleResolution: ts.ModuleResolutionKind.Bundler,
  noEmit: true,
  skipLibCheck: true,
  target: ts.ScriptTarget.ESNext,
  types: [],
};

/**
 * Reads programs and what they import.
 * @param programs absolute paths.
 * @param options.configs each `deno.json` above them, the nearest first.
 * @param options.library the types of Deno.
 */
export function compile(
  programs: readonly string[],
  { configs, library }: { readonly configs: readonly string[]; readonly library: string },
): Compiled {
  const config = configOf(configs);
  const host = ts.createCompilerHost(config.options, true);
  const readSource = host.getSourceFile;
  host.getSourceFile = (name, options, ...rest) =>
    isCode(name)
      ? readSource(name, options, ...rest)
      : ts.createSourceFile(name, AS_TEXT, options, true);
  const typedElsewhere = new Set<string>();
  let isWhole = true;
  host.resolveModuleNameLiterals = (names, from) =>
    names.map((name) => {
      const file = fileOf(name.text, from, config.map);
      const types = file === undefined ? undefined : typesOf(file, name);
      const seen = types === undefined ? file : fileOf(types.name, types.from, config.map);
      if (file === undefined || seen === undefined) {
        if (from !== library && isOwn(from)) isWhole = false;
        return { resolvedModule: undefined };
      }
      if (seen !== file) typedElsewhere.add(file);
      return { resolvedModule: { resolvedFileName: seen, extension: extensionOf(seen) } };
    });
  const roots = [...programs, ...config.types, library];
  const program = ts.createProgram(roots, config.options, host);
  const sources = program.getSourceFiles().filter((file) =>
    !program.isSourceFileDefaultLibrary(file) && file.fileName !== library
  );
  return {
    program,
    checker: program.getTypeChecker(),
    own: sources.filter(({ fileName }) => isOwn(fileName)),
    typedElsewhere: [...typedElsewhere].filter((file) => program.getSourceFile(file) === undefined),
    configs: config.files,
    modules: sources.map(({ fileName }) => fileName),
    isWhole,
    wrong: config.wrong,
  };
}

const AS_TEXT = "declare const text: string;\nexport default text;\n";

/** Where a comment before the import, or one in JavaScript, names another file, as Deno has it. */
function typesOf(
  file: string,
  name: ts.StringLiteralLike,
): { readonly name: string; readonly from: string } | undefined {
  const statement = ts.findAncestor(name, ts.isStatement), source = statement?.getSourceFile();
  if (statement === undefined || source === undefined) return undefined;
  const before = source.text.slice(statement.pos, statement.getStart(source));
  const [, here] = /@(?:ts|deno)-types\s*=\s*["']([^"']+)["']/.exec(before) ?? [];
  if (here !== undefined) return { name: here, from: source.fileName };
  if (!/\.[cm]?jsx?$/.test(file)) return undefined;
  const own = /^\s*(?:\/\/|\/\*).*@ts-self-types\s*=\s*["']([^"']+)["']/m;
  const [, itself] = own.exec(textIfThere(file) ?? "") ?? [];
  return itself === undefined ? undefined : { name: itself, from: file };
}

function isOwn(file: string): boolean {
  return !file.startsWith(`${ROOT}/`) ||
    !/^(fabric|nodes|console)\//.test(file.slice(ROOT.length + 1));
}

function configOf([path, ...above]: readonly string[]): Config {
  const own = path === undefined ? { files: [], json: {}, wrong: [] } : jsonOf(path);
  const workspace = path === undefined ? undefined : workspaceOf(path, above);
  const common = ts.convertCompilerOptionsFromJson(
    withoutDenoLibraries(workspace?.json ?? {}),
    ROOT,
  );
  const given = ts.convertCompilerOptionsFromJson(withoutDenoLibraries(own.json), ROOT);
  const place = path && mapOf(path, own.json);
  const separate = place === undefined ? undefined : jsonOf(place);
  const mapped = separate === undefined
    ? path && absolute(own.json, toFileUrl(path))
    : absolute(separate.json, toFileUrl(place!));
  const shared = workspace && absolute(workspace.json, toFileUrl(workspace.files[0]!)).imports;
  const clone = projectFile("deno.json");
  const { imports } = absolute(jsonOf(fromFileUrl(clone)).json, clone);
  const doors = Object.entries(imports).filter(([name]) => /^rackmesh(\/|$)/.test(name));
  const types = (given.options.types ?? []).flatMap((name) =>
    path && /^\.{1,2}\//.test(name) ? plain(`${folderOf(path)}/${name}`) : []
  );
  return {
    files: [...own.files, ...workspace?.files ?? [], ...separate?.files ?? [], ...types],
    options: { ...DEFAULTS, ...common.options, ...given.options, ...FIXED },
    types,
    map: {
      imports: { ...shared, ...(mapped ? mapped.imports : {}), ...Object.fromEntries(doors) },
      scopes: { ...(mapped ? mapped.scopes : {}), [projectFile("").href]: imports },
    },
    wrong: [...own.wrong, ...separate?.wrong ?? [], ...given.errors],
  };
}

/** Options and names of a workspace hold in its members, too. */
function workspaceOf(config: string, above: readonly string[]) {
  return above.map(jsonOf).find(({ files: [path = ""], json: { workspace } }) => {
    const { members = workspace } = Object(workspace) as { readonly members?: unknown };
    return Array.isArray(members) && members.some((member) => {
      // `packages/*`
      const parts = plain(`${folderOf(path)}/${member}`).replace(/\/$/, "").split("*");
      return new RegExp(`^${parts.map(RegExp.escape).join("[^/]*")}$`).test(folderOf(config));
    });
  });
}

function mapOf(config: string, { importMap }: Json): string | undefined {
  if (typeof importMap !== "string") return undefined;
  return pathOf(importMap, toFileUrl(config)) ?? plain(`${folderOf(config)}/${importMap}`);
}

interface Json {
  readonly compilerOptions?: { readonly lib?: unknown };
  readonly importMap?: unknown;
  readonly workspace?: unknown;
  readonly imports?: unknown;
  readonly scopes?: unknown;
}

function jsonOf(path: string) {
  const { config = {}, error } = ts.readConfigFile(path, textIfThere);
  return { files: [path], json: config as Json, wrong: error === undefined ? [] : [error] };
}

/** Deno's own libraries are one file; `lib` stands in {@link FIXED}. */
function withoutDenoLibraries({ compilerOptions = {} }: Json): object {
  const { lib: _, ...others } = compilerOptions;
  return others;
}

function absolute({ imports, scopes }: Json, base: URL): ImportMap {
  const names = (map: unknown): Names =>
    Object.fromEntries(
      Object.entries(map ?? {}).map(([name, place]) =>
        // A name that is mapped to null does not exist.
        [name, /^\.{0,2}\//.test(place) ? URL.parse(place, base)?.href ?? "" : `${place}`] as const
      ),
    );
  return {
    imports: names(imports),
    scopes: Object.fromEntries(
      Object.entries(scopes ?? {}).flatMap(([scope, map]) => {
        const at = URL.parse(scope, base);
        return at === null ? [] : [[at.href, names(map)] as const];
      }),
    ),
  };
}

function fileOf(name: string, from: string, { imports, scopes }: ImportMap): string | undefined {
  if (/^\.{1,2}\//.test(name)) {
    // As a bundler takes a name: as text, or as a URL.
    return [plain(`${folderOf(from)}/${name}`), pathOf(name, toFileUrl(from))].find(isFile);
  }
  const own = Object.keys(scopes).filter((scope) => toFileUrl(from).href.startsWith(scope))
    .sort((x, y) => y.length - x.length).map((scope) => scopes[scope]!);
  for (const names of [...own, imports]) {
    const place = placeOf(name, names);
    if (place !== undefined) return pathOf(place);
  }
  return pathOf(name) ?? (isFile(name) ? name : undefined);
}

function placeOf(name: string, names: Names): string | undefined {
  if (Object.hasOwn(names, name)) return names[name];
  const folder = Object.keys(names).filter((each) => each.endsWith("/") && name.startsWith(each))
    .sort((x, y) => y.length - x.length)[0];
  return folder === undefined ? undefined : names[folder]! + name.slice(folder.length);
}

function folderOf(file: string): string {
  return file.slice(0, file.lastIndexOf("/"));
}

function plain(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== ".") parts.push(part);
  }
  return parts.join("/");
}

function pathOf(url: string, base?: URL): string | undefined {
  const at = URL.parse(url, base);
  if (at?.protocol !== "file:") return undefined;
  try {
    const path = fromFileUrl(at);
    return isFile(path) ? path : undefined;
  } catch (error) {
    if (!(error instanceof URIError)) throw error;
    return undefined;
  }
}

function isFile(path: string | undefined): path is string {
  return path !== undefined && path.startsWith("/") && ts.sys.fileExists(path);
}

/** `.d.ts` comes before `.ts`. */
const EXTENSIONS: readonly string[] = [
  ...[".d.ts", ".d.mts", ".d.cts", ".ts", ".mts", ".cts", ".tsx"],
  ...[".js", ".mjs", ".cjs", ".jsx", ".json"],
];

function isCode(file: string): boolean {
  return EXTENSIONS.some((extension) => file.endsWith(extension));
}

function extensionOf(file: string): string {
  return EXTENSIONS.find((extension) => file.endsWith(extension)) ?? ts.Extension.Ts;
}
