import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { seccompProfile } from "./seccomp.ts";

interface Rule {
  readonly names: readonly string[];
  readonly action: string;
  readonly args?: readonly { readonly value: number; readonly op: string }[];
}

describe("seccompProfile", () => {
  const { defaultAction, architectures, syscalls } = JSON.parse(seccompProfile()) as {
    readonly defaultAction: string;
    readonly architectures: readonly string[];
    readonly syscalls: readonly Rule[];
  };
  const rulesOf = (name: string) => syscalls.filter(({ names }) => names.includes(name));

  it("allows what is listed, on x86-64 alone", () => {
    assert.deepEqual([defaultAction, architectures], ["SCMP_ACT_ERRNO", ["SCMP_ARCH_X86_64"]]);
    const names = syscalls[0]!.names;
    assert.equal(new Set(names).size, names.length);
    assert.ok(names.every((name) => /^[a-z][a-z0-9_]+$/.test(name)));
  });

  it("lets a program have fixed addresses, and no other personality than Docker's own profile", () => {
    const values = rulesOf("personality").map(({ args }) => args![0]!.value);
    assert.deepEqual(values.sort((a, b) => a - b), [0, 8, 0x20000, 0x20008, 0x40000, 0xffffffff]);
  });

  it("lets no process into namespaces, mounts, other clocks or the kernel's keys and programs", () => {
    for (
      const name of [
        ...["unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "clock_settime"],
        ...["bpf", "keyctl", "add_key", "perf_event_open", "userfaultfd", "io_uring_setup"],
        ...["init_module", "kexec_load", "open_by_handle_at", "reboot"],
      ]
    ) assert.deepEqual(rulesOf(name), [], name);
    assert.deepEqual(rulesOf("clone3").map(({ action }) => action), ["SCMP_ACT_ERRNO"]);
    assert.deepEqual(rulesOf("clone").map(({ args }) => args![0]!.op), ["SCMP_CMP_MASKED_EQ"]);
  });
});
