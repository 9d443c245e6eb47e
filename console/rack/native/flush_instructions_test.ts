import { deepEqual as same, equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { decode, flushesIn } from "./flush_instructions.ts";

const code = (digits: string) => Uint8Array.fromHex(digits.replaceAll(" ", ""));

/** As objdump has them: bytes, and what they are. */
const FLUSHES: Readonly<Record<string, string>> = {
  "clflush (%rdi)": "0f ae 3f",
  "clflushopt 0x40(%rdi)": "66 0f ae 7f 40",
  "clwb (%rax)": "66 0f ae 30",
  "clwb 0x0(%r13)": "66 41 0f ae 75 00",
  "movnti %rax,(%rdi)": "48 0f c3 07",
  "movnti %eax,(%rdi,%rcx,8)": "0f c3 04 cf",
  "movntps %xmm0,(%rdi)": "0f 2b 07",
  "movntpd %xmm0,(%rdi)": "66 0f 2b 07",
  "movntdq %xmm8,0x10(%rdi)": "66 44 0f e7 47 10",
  "movntq %mm0,(%rdi)": "0f e7 07",
  "vmovntdq %ymm0,(%rdi)": "c5 fd e7 07",
  "vmovntdq %ymm9,(%r8)": "c4 41 7d e7 08",
  "vmovntdq %zmm0,0x40(%rdi)": "62 f1 7d 48 e7 47 01",
};

const OTHERS: Readonly<Record<string, string>> = {
  "mfence": "0f ae f0",
  "sfence": "0f ae f8",
  "xsaveopt (%rdi)": "0f ae 37",
  "fxsave (%rdi)": "0f ae 07",
  "ret": "c3",
  "cvtdq2pd %xmm0,%xmm0": "f3 0f e6 c0",
  "movntdqa (%rdi),%xmm0": "66 0f 38 2a 07",
  "mov $0x3fae0f66,%eax": "b8 66 0f ae 3f",
  "movabs $0x3fae0f6630ae0f66,%rax": "48 b8 66 0f ae 30 66 0f ae 3f",
  "mov %rax,0x3fae0f(%rip)": "48 89 05 0f ae 3f 00",
  "movw $0xae0f,(%rdi)": "66 c7 07 0f ae",
  "testb $0xf,(%rdi)": "f6 07 0f",
  "notb (%rdi)": "f6 17",
  "enter $0xae0f,$0x3f": "c8 0f ae 3f",
  "jmp +0x3fae0f": "e9 0f ae 3f 00",
  "movabs 0x3fae0f,%al": "a0 0f ae 3f 00 00 00 00 00",
  "pshufd $0xf,%xmm0,%xmm0": "66 0f 70 c0 0f",
  "palignr $0xf,(%rdi),%xmm0": "66 0f 3a 0f 07 0f",
  "mov 0x3fae0f(,%rax,8),%rax": "48 8b 04 c5 0f ae 3f 00",
};

describe("flushesIn", () => {
  for (const [text, bytes] of Object.entries(FLUSHES)) {
    it(`counts ${text}`, () => {
      same(decode(code(bytes), 0), { length: code(bytes).length, flushes: true });
      equal(flushesIn(code(bytes + "c3" + bytes)), 2);
    });
  }

  for (const [text, bytes] of Object.entries(OTHERS)) {
    it(`does not count ${text}`, () => {
      same(decode(code(bytes), 0), { length: code(bytes).length, flushes: false });
    });
  }

  it("ends where code ends within an instruction, or has more prefixes than one has", () => {
    equal(flushesIn(code("48 b8 66 0f")), 0);
    equal(flushesIn(code("66".repeat(40))), 0);
  });
});
