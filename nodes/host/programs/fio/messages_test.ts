import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { RDMA_IODEPTH_MAX } from "./job.ts";
import { queueSizes } from "./librpma_client.ts";
import {
  decodeFlushRequest,
  decodeFlushResponse,
  decodeInfo,
  decodeWorkspace,
  encodeFlushRequest,
  encodeFlushResponse,
  encodeInfo,
  encodeWorkspace,
  INFO_BYTES,
} from "./messages.ts";

describe("messages of fio's engines", () => {
  it("a workspace has 28 B, as librpma_fio.h says, and comes back", () => {
    const workspace = {
      messages: 7,
      directWriteToPmem: true,
      va: 0x7f00_0000_1000,
      rkey: 0x1234,
      bytes: 100 * 2 ** 20,
      isPersistent: true,
    };
    const bytes = encodeWorkspace(workspace);
    assert.equal(bytes.length, 28);
    assert.deepEqual(decodeWorkspace(bytes), workspace);
    assert.deepEqual(decodeWorkspace(encodeWorkspace({ ...workspace, isPersistent: false })), {
      ...workspace,
      isPersistent: false,
    });
    assert.equal(decodeWorkspace(bytes.subarray(1)), undefined);
    assert.equal(decodeWorkspace(new Uint8Array(28)), undefined);
  });

  it("flush messages are protocol buffers of fixed64", () => {
    const request = { offset: 4096, length: 2 ** 40, context: 3 };
    const bytes = encodeFlushRequest(request);
    assert.deepEqual([...bytes.subarray(0, 10)], [0x09, 0, 0x10, 0, 0, 0, 0, 0, 0, 0x11]);
    assert.deepEqual(decodeFlushRequest(bytes), request);
    assert.equal(decodeFlushRequest(bytes.subarray(1)), undefined);
    assert.equal(decodeFlushRequest(new Uint8Array(27)), undefined);
    assert.equal(decodeFlushResponse(encodeFlushResponse(9)), 9);
    assert.equal(decodeFlushResponse(bytes), undefined);
  });

  it("an information block has room for 512 buffers, whatever is in it", () => {
    const buffers = [{ va: 0x1000, rkey: 5, bytes: 4096 }, { va: 0x2000, rkey: 5, bytes: 4096 }];
    const block = { verb: "read", blockBytes: 4096, buffers, count: 2 } as const;
    const bytes = encodeInfo(block);
    assert.equal(bytes.length, INFO_BYTES);
    assert.equal(INFO_BYTES, 12 + 16 * RDMA_IODEPTH_MAX);
    assert.deepEqual(decodeInfo(bytes), block);
    assert.equal(decodeInfo(bytes.subarray(4)), undefined);
    assert.equal(decodeInfo(new Uint8Array(INFO_BYTES)), undefined);
  });
});

describe("queueSizes", () => {
  it("are those of client_init: a flush for each batch of a sequence, for each random write", () => {
    const job = {
      engine: "librpma_apm_client",
      readPercent: 0,
      random: false,
      sync: false,
    } as const;
    const sizes = { iodepth: 16, batch: 5 };
    assert.equal(queueSizes({ ...job, ...sizes }).sends, 20);
    assert.equal(queueSizes({ ...job, ...sizes, random: true }).sends, 32);
    assert.equal(queueSizes({ ...job, ...sizes, readPercent: 50 }).sends, 32);
    assert.equal(queueSizes({ ...job, ...sizes, readPercent: 100 }).sends, 16);
    assert.equal(queueSizes({ ...job, ...sizes, sync: true }).sends, 2);
    const gpspm = { ...job, ...sizes, engine: "librpma_gpspm_client" } as const;
    assert.deepEqual(queueSizes(gpspm), { sends: 20, messages: 4 });
    assert.deepEqual(queueSizes({ ...gpspm, random: true }), { sends: 32, messages: 16 });
    assert.deepEqual(queueSizes({ ...gpspm, sync: true }), { sends: 2, messages: 1 });
  });
});
