/**
 * Steps of accesses to shared regions (`coherence.md`): a paragraph and the place in it, `0063.2`.
 * A device traces its message; the place of the copy determines the number.
 */

/** Home's local cache [0056–0061], or the far card's remote cache [0062–0067]. */
export type AccessFigure = "local" | "remote";

const NUMBERS: Readonly<Record<string, Readonly<Partial<Record<AccessFigure, string>>>>> = {
  "core-load": { local: "0057.1", remote: "0063.1" },
  "core-store": { local: "0057.1", remote: "0063.1" },
  "wire-Read": { local: "0057.2" },
  "wire-Write": { local: "0057.2" },
  "wire-GetS": { remote: "0063.2" },
  "wire-GetM": { remote: "0063.2" },
  "bus-RdData": { local: "0057.3", remote: "0063.3" },
  "bus-RdInvOwn": { local: "0057.3", remote: "0063.3" },
  "bus-GrantS": { local: "0058.1", remote: "0064.1" },
  "bus-GrantE": { local: "0058.1", remote: "0064.1" },
  "local-cache": { local: "0058.2" },
  "wire-DataS": { remote: "0064.2" },
  "wire-DataE": { remote: "0064.2" },
  "remote-cache": { remote: "0064.3" },
  "wire-Value": { local: "0059.1" },
  "core-answer": { local: "0059.2", remote: "0065.1" },
  "wire-Dirty": { remote: "0065.2" },
  "bus-BusDirty": { local: "0060.1", remote: "0065.3" },
  "bus-SnpInv": { local: "0061.1", remote: "0067.1" },
  "bus-SnpData": { local: "0061.1", remote: "0067.1" },
  "bus-RspI": { local: "0061.2", remote: "0067.4" },
  "bus-RspS": { local: "0061.2", remote: "0067.4" },
  "wire-Inv": { remote: "0067.2" },
  "wire-RecI": { remote: "0067.2" },
  "wire-RecS": { remote: "0067.2" },
  "wire-InvAck": { remote: "0067.3" },
  "wire-RecIData": { remote: "0067.3" },
  "wire-RecSData": { remote: "0067.3" },
};

/** The document's words, without the subject, which is the column's device. */
const DOCUMENT: Readonly<Record<string, string>> = {
  "0057.1": "sends a non-coherent request to its card",
  "0057.2": "converts it to InfiniBand and sends it to the local card",
  "0057.3": "converts it to a coherent request to the local CPU",
  "0058.1": "returns the response to its card",
  "0058.2": "keeps the copy and its state in the local cache",
  "0059.1": "does the operation, sends read data or a write-done",
  "0059.2": "converts the answer, returns it to the far CPU",
  "0060.1": "notifies the local CPU of a write in E: the state is M",
  "0061.1": "tells its card that it changes the state",
  "0061.2": "changes the copy's state, responds",
  "0063.1": "sends a non-coherent request to its card",
  "0063.2": "converts it to InfiniBand and sends it to the local card",
  "0063.3": "converts it to a coherent request to the local CPU",
  "0064.1": "returns the response to its card",
  "0064.2": "converts it to InfiniBand and sends it with its data to the far card",
  "0064.3": "keeps the copy and its state in the remote cache",
  "0065.1": "does the operation in the remote cache, answers the far CPU",
  "0065.2": "sends a notice of a write in E to the local CPU",
  "0065.3": "passes the notice to the local CPU: the state is M",
  "0067.1": "tells its card that it changes the state",
  "0067.2": "converts it to InfiniBand and sends it to the far card",
  "0067.3": "changes the copy's state, responds by InfiniBand",
  "0067.4": "returns the response to the local CPU",
};

/** Undefined for a step that the document does not have. */
export function accessStep(step: string, figure: AccessFigure): string | undefined {
  return NUMBERS[step]?.[figure];
}

export function accessText(step: string): string | undefined {
  return DOCUMENT[step];
}
