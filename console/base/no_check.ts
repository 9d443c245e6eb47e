/**
 * Not empty in the environment: types of own programs are checked elsewhere, and not before each
 * run.
 */
export const NO_CHECK = "RACKMESH_NO_CHECK";
