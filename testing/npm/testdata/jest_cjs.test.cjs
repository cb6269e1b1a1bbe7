/* global test, expect */
// A test of a user, in CommonJS.
const { MemoryLock } = require("@holdfast/lock");

test("locks work in CommonJS", async () => {
  const locks = new MemoryLock();
  expect(await locks.request("a", ({ name }) => name)).toBe("a");
  await locks[Symbol.asyncDispose]();
});
