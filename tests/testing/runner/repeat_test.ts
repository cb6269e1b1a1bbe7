import { assertEquals, assertMatch } from "@std/assert";
import { shuffled } from "../../../testing/runner/order.ts";
import { plant } from "../../../testing/runner/planted.ts";

Deno.test("deno task test --repeat counts the failures of each test, and a seed replays the order", async () => {
  const names = ["a", "b", "c", "d"].map((name) => `${name}_test.js`);
  const text = (name: string) => `
    Deno.test("listed", () => {
      Deno.writeTextFileSync(import.meta.dirname + "/order", "${name} ", { append: true });
    });`;
  const failing = `Deno.test("fails in the first run", () => {
    const file = import.meta.dirname + "/ran";
    Deno.writeTextFileSync(file, "x", { append: true });
    if (Deno.statSync(file).size === 1) throw new Error("only once");
  });`;
  await using planted = await plant(Object.fromEntries(
    names.map((name) => [name, name === "a_test.js" ? text(name) + failing : text(name)]),
  ));
  const { folder } = planted;
  const takeOrder = async () => {
    const order = (await Deno.readTextFile(`${folder}/order`)).trim().split(" ");
    await Deno.remove(`${folder}/order`);
    return order;
  };
  const { code, lines, lastLine, log } = await planted.run(
    ["--repeat", "2", "--seed", "41", "--jobs", "1"],
  );
  const printed = lines.join("\n");
  assertEquals([code, lastLine], [1, "9 passed, 1 failed"], printed);
  const title = `${folder}/a_test.js => fails in the first run`;
  assertEquals(printed.split(`failed 1 of 2 times: ${title} (seed 41)\n`).length, 2, printed);
  assertEquals(printed.split("error: Error: only once").length, 2, printed);
  assertMatch(printed, /^Run 1 of 2: 4 passed, 1 failed; .*; seed 41$/m);
  assertMatch(printed, /^Run 2 of 2: 5 passed, 0 failed; .*; seed 42$/m);
  assertMatch(log, /^ok {5}\S*b_test\.js: 1 test, /m);

  const order = await takeOrder();
  const paths = names.map((name) => `${folder}/${name}`);
  const expected = (seed: number) => shuffled(paths, seed).map((path) => path.split("/").at(-1));
  assertEquals(order, [...expected(41), ...expected(42)]);
  const replayed = await planted.run(["--repeat", "1", "--seed", "42", "--jobs", "1"]);
  assertEquals([replayed.code, await takeOrder()], [0, expected(42)]);
});
