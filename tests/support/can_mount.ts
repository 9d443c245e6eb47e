/** Whether this machine lets us mount a file system of our own, for tests of full disks. */
export async function canMount(directory: string): Promise<boolean> {
  try {
    const probe = new Deno.Command("unshare", {
      args: ["-rm", "mount", "-t", "tmpfs", "none", directory],
      stderr: "null",
    });
    return (await probe.output()).success;
  } catch {
    return false;
  }
}
