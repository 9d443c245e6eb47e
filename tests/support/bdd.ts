/**
 * `@std/testing/bdd` as our tests use it, over Deno's own runner. The real package is published on a
 * registry that not every machine reaches; `scripts/README.md` says how to switch the import map.
 */
export {
  after as afterAll,
  afterEach,
  before as beforeAll,
  beforeEach,
  describe,
  it,
} from "node:test";
