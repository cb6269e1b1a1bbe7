import * as a from "../../../testing/assert/assert.ts";
import { delay } from "../../../testing/assert/async.ts";

class CustomError extends Error {
  readonly code: number;
  constructor(code: number) {
    super(`Code ${code}`);
    this.code = code;
  }
}

Deno.test("assert.ts accepts correct values and narrows their types", async () => {
  const value: unknown = new CustomError(7);
  a.assertInstanceOf(value, CustomError);
  a.assertEquals(value.code, 7);
  const throws = () => {
    throw value;
  };
  const thrown: CustomError = a.assertThrows(throws, CustomError, "Code 7");
  a.assert(thrown === value);
  const rejected: CustomError = await a.assertRejects(() => Promise.reject(value), CustomError);
  a.assert(rejected === value);
  a.assert(a.assertThrows(throws) === value);
  a.assertEquals(await a.assertRejects(() => Promise.reject(1)), 1);
  const maybe: number | undefined = [1][0];
  a.assert(maybe !== undefined);
  a.assertGreater(maybe, 0);
  a.assertGreaterOrEqual(maybe, 1);
  a.assertLess(maybe, 2);
  a.assertLessOrEqual(maybe, 1);
  a.assertMatch("abc", /b/);
  a.assertStringIncludes("abc", "bc");
});

Deno.test("assert.ts fails for incorrect values", async () => {
  const wrong: (() => unknown)[] = [
    () => a.assert(0),
    () => a.assertEquals([1], [2]),
    () => a.assertEquals<unknown>({ a: undefined }, {}),
    () => a.assertEquals<unknown>(1, "1"),
    () => a.assertInstanceOf({}, CustomError),
    () => a.assertGreater(1, 1),
    () => a.assertGreaterOrEqual(0, 1),
    () => a.assertLess(1, 1),
    () => a.assertLessOrEqual(2, 1),
    () => a.assertMatch("a", /b/),
    () => a.assertStringIncludes("a", "b"),
    () => a.assertThrows(() => {}),
    () =>
      a.assertThrows(() => {
        throw new Error("x");
      }, CustomError),
  ];
  for (const check of wrong) {
    let hasFailed = false;
    try {
      check();
    } catch {
      hasFailed = true;
    }
    if (!hasFailed) throw new Error(`It passes: ${check}`);
  }
  await a.assertRejects(() => a.assertRejects(() => Promise.resolve()), Error, "to reject");
  const rejectsOther = () => a.assertRejects(() => Promise.reject(new Error("x")), Error, "y");
  await a.assertRejects(rejectsOther, Error, "Expected x to include y");
});

Deno.test("assert.ts fails with the message of the caller", () => {
  a.assertThrows(() => a.assert(false, "because"), Error, "because");
  a.assertThrows(() => a.assertEquals(1, 2, "because"), Error, "because");
  a.assertThrows(() => a.assertLess(2, 1, "because"), Error, "because");
});

Deno.test("delay() resolves after its duration", async () => {
  const startMs = performance.now();
  // No condition: the time that it takes is what it promises.
  await delay(20);
  a.assertGreater(performance.now() - startMs, 15);
});
