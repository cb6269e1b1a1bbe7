/** A cron job, a leader and a cache among several processes, with locks in files. */
import { assertEquals, assertMatch } from "@std/assert";
import { cronOnce, leadersInTurn, refilledOnce } from "../../testing/examples/singletons.ts";
import { filePlace, startProgram } from "../../testing/examples/programs.ts";

const TESTS = {
  "examples/cron.ts runs each tick in one of three processes": cronOnce,
  "examples/leader.ts lets the next process lead when the leader is killed or ends": leadersInTurn,
  "examples/web/cache.ts refills the cache once for many requests in two processes": refilledOnce,
};

for (const [name, run] of Object.entries(TESTS)) {
  Deno.test(`${name}, with locks in files`, async () => {
    await using place = await filePlace();
    await run(place);
  });
}

Deno.test("examples/ that serve HTTP have --port, and a line with curl in their header", async () => {
  const examples = new URL("../../examples/", import.meta.url);
  const web = [...Deno.readDirSync(new URL("web/", examples))].map(({ name }) => `web/${name}`);
  for (const file of [...web, "lock_service.ts"]) {
    if (file === "web/shop.ts") continue; // the part that the others share
    const text = await Deno.readTextFile(new URL(file, examples));
    const [header] = /^\/\*\*.*?\*\//s.exec(text)!;
    assertMatch(header, /`curl (-X \w+ )?localhost:8000[^`]*`/, file);
    await using place = await filePlace();
    await using program = startProgram(file, place, "--help");
    assertEquals(await program.ended, 0);
    await program.saying("  --port N ");
  }
});

Deno.test("examples/ print their usage with --help", async () => {
  await using place = await filePlace();
  for (const file of ["cron.ts", "leader.ts", "web/cache.ts", "web/koa.ts"]) {
    await using program = startProgram(file, place, "--help");
    assertEquals(await program.ended, 0);
    await program.saying(
      "The locks are in files of this user, or where HOLDFAST_URL says.",
    );
  }
});
