import { Document } from "yaml";

/**
 * Quoted, a key or value is a text in every version of YAML: on, no, 1 and null are names of hosts.
 * Several documents become one stream.
 */
export function yamlText(documents: readonly unknown[], comment?: string): string {
  const texts = documents.map((content, i) => {
    const document = new Document(content, { aliasDuplicateObjects: false });
    if (i === 0 && comment !== undefined) document.commentBefore = comment;
    return document.toString({
      defaultStringType: "QUOTE_DOUBLE",
      defaultKeyType: "QUOTE_DOUBLE",
      doubleQuotedAsJSON: true,
      lineWidth: 0,
    });
  });
  return texts.join("---\n").replaceAll(LINE_BREAKS, escaped);
}

/** Line ends of YAML 1.1 and control characters, which JSON leaves as they are. */
const LINE_BREAKS = /[\u007f-\u009f\u2028\u2029\ufeff]/g;

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
