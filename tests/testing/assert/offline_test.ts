import * as a from "../../../testing/assert/assert.ts";
import { deadline, delay } from "../../../testing/assert/async.ts";

class CustomError extends Error {
  readonly code: number;
  constructor(code: number) {
    super(`Code ${code}`);
    this.code = code;
  }
}

Deno.test("the offline assertions pass what is right and narrow types", async () => {
  const value: unknown = new CustomError(7);
  a.assertInstanceOf(value, CustomError);
  a.assertEquals(value.code, 7);
  const thrown: CustomError = a.assertThrows(
    () => {
      throw value;
    },
    CustomError,
    "Code 7",
  );
  a.assertStrictEquals(thrown, value);
  const rejected: CustomError = await a.assertRejects(() => Promise.reject(value), CustomError);
  a.assertStrictEquals(rejected, value);
  a.assertEquals(await a.assertRejects(() => Promise.reject(1)), 1);
  const maybe: number | undefined = [1][0];
  a.assertExists(maybe);
  a.assertGreater(maybe, 0);
  a.assertGreaterOrEqual(maybe, 1);
  a.assertLess(maybe, 2);
  a.assertLessOrEqual(maybe, 1);
  a.assertMatch("abc", /b/);
  a.assertNotEquals({ a: 1 }, { a: 2 });
});

Deno.test("the offline assertions fail what is wrong", async () => {
  const wrong: (() => unknown)[] = [
    () => a.fail("no"),
    () => a.assert(0),
    () => a.assertEquals([1], [2]),
    () => a.assertNotEquals([1], [1]),
    () => a.assertStrictEquals({}, {}),
    () => a.assertExists(null),
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
  for (const check of wrong) a.assertThrows(check, Error);
  await a.assertRejects(() => a.assertRejects(() => Promise.resolve()), Error, "to reject");
  const rejectsOther = () => a.assertRejects(() => Promise.reject(new Error("x")), Error, "y");
  await a.assertRejects(rejectsOther, Error, '"y" in "x"');
});

Deno.test("the offline delay and deadline end in time or as their signals say", async () => {
  await delay(1);
  const reason = new CustomError(1);
  const aborted = AbortSignal.abort(reason);
  a.assertStrictEquals(await a.assertRejects(() => delay(60_000, { signal: aborted })), reason);
  a.assertEquals(await deadline(Promise.resolve(3), 60_000), 3);
  const never = new Promise<void>(() => {});
  const late = await a.assertRejects(() => deadline(never, 5), DOMException);
  a.assertEquals(late.name, "TimeoutError");
  const controller = new AbortController();
  const pending = a.assertRejects(() => deadline(never, 60_000, { signal: controller.signal }));
  controller.abort(reason);
  a.assertStrictEquals(await pending, reason);
});
