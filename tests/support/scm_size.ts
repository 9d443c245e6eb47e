/** Bytes of the SCM files in the tests of `ScmFile`, also in those of its child processes. */
export const SUITE_BYTES = 12 * 4096;
