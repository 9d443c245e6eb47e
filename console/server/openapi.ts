/** What the document of the API has besides the routes' own schemas. */
import { OWN_HEADER } from "./doors/guards.ts";

interface Operation {
  readonly parameters?: readonly unknown[];
}

type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>;

const HEADER_NAME = "OwnHeader";

/** The head of the document. */
export function documentHead(version: string, server: string) {
  return {
    openapi: "3.1.0",
    info: {
      title: "Rackmesh console",
      version,
      description: "Requests carry `Authorization: Bearer KEY`; those that are no GET also " +
        `\`${OWN_HEADER}: 1\`. Times in members that end in Ps are picoseconds of virtual time. ` +
        "An error is a problem document (RFC 9457).",
      license: { name: "Apache 2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: server }],
    security: [{ key: [] }],
  };
}

/** The document with its security scheme, the header of changes, and a name for each operation. */
export function completed<
  Document extends { readonly paths?: object; readonly components?: object },
>(
  document: Document,
) {
  const { paths = {}, components = {} } = document;
  const described = Object.entries(paths as Paths).map(([path, operations]) => {
    const own = Object.entries(operations).map(([method, operation]) => {
      const parameters = [
        ...operation.parameters ?? [],
        ...(method === "get" ? [] : [{ $ref: `#/components/parameters/${HEADER_NAME}` }]),
      ];
      const id = operationId(method, path);
      return [method, {
        operationId: id,
        ...operation,
        ...(parameters.length > 0 && { parameters }),
      }];
    });
    return [path, Object.fromEntries(own)];
  });
  return {
    ...document,
    paths: Object.fromEntries(described),
    components: {
      ...components,
      securitySchemes: {
        key: {
          type: "http",
          scheme: "bearer",
          description: "The key that a sign-in gives, or the owner's: RACKMESH_CONSOLE_KEY",
        },
      },
      parameters: {
        [HEADER_NAME]: {
          name: OWN_HEADER,
          in: "header",
          required: true,
          description: "No form can set it, and without CORS no page of another origin",
          schema: { type: "string", const: "1" },
        },
      },
    },
  };
}

/** `GET /runs/{run}/files` is `getRunsByRunFiles`. */
function operationId(method: string, path: string): string {
  const words = path.split("/").filter((part) => part !== "").map((part) => {
    const parameter = /^\{(\w+)\}$/.exec(part)?.[1];
    const text = parameter === undefined ? part : `by-${parameter}`;
    return text.split("-").map((word) => word[0]!.toUpperCase() + word.slice(1)).join("");
  });
  return `${method}${words.join("")}`;
}
