import { assertEquals, assertRejects } from "@std/assert";
import { readServers, roundsOf } from "../../../testing/runner/server_programs.ts";

const REDIS = { path: "/a", version: "Redis 8.0.2" };
const VALKEY = { path: "/b", version: "Valkey 8.1.1" };
const FILES = ["tests/redis/a_test.ts", "tests/core/b_test.ts", "tests/http/redis_c_test.ts"];

Deno.test("readServers() asks each program for its name and version", async () => {
  const folder = await Deno.makeTempDir({ prefix: "holdfast-" });
  const write = (name: string, text: string) =>
    Deno.writeTextFile(`${folder}/${name}`, `#!/bin/sh\necho "${text}"\n`, { mode: 0o755 });
  await write("one", "Redis server v=6.2.16 sha=00000000:0 malloc=jemalloc-5.1.0 bits=64");
  await write("t=wo", "Valkey server v=8.1.1 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64");
  assertEquals(await readServers(`redis=one,redis=${folder}/t=wo`, folder), [
    { path: `${folder}/one`, version: "Redis 6.2.16" },
    { path: `${folder}/t=wo`, version: "Valkey 8.1.1" },
  ]);
  await Deno.remove(folder, { recursive: true });
});

Deno.test("readServers() rejects unknown names and files that are no Redis server", async () => {
  const folder = await Deno.makeTempDir({ prefix: "holdfast-" });
  await Deno.writeTextFile(`${folder}/text`, "");
  await Deno.writeTextFile(`${folder}/other`, "#!/bin/sh\necho other\n", { mode: 0o755 });
  const problems = {
    "redis": "write redis=PATH",
    "etcd=/bin/sh": 'Cannot use "etcd=/bin/sh" in --servers: write redis=PATH',
    "": 'Cannot use "" in --servers',
    "redis=missing": `Cannot use "${folder}/missing" as a Redis server: there is no such file`,
    "redis=.": "there is no such file",
    "redis=text": "it is not executable",
    "redis=other": "it does not answer --version as Redis does",
    "redis=other,redis": "Cannot use",
  };
  for (const [list, problem] of Object.entries(problems)) {
    await assertRejects(() => readServers(list, folder), Error, problem, list);
  }
  await Deno.remove(folder, { recursive: true });
});

Deno.test("roundsOf() runs all files at once with no program or one", () => {
  assertEquals(roundsOf(FILES, []), [{ title: "all tests", files: FILES, redis: undefined }]);
  assertEquals(roundsOf(FILES, [REDIS]), [
    { title: "Redis 8.0.2 (/a)", files: FILES, redis: REDIS },
  ]);
});

Deno.test("roundsOf() repeats only the files of Redis with several programs", () => {
  const [first, other, last] = FILES as [string, string, string];
  assertEquals(roundsOf(FILES, [REDIS, VALKEY]), [
    { title: "Redis 8.0.2 (/a)", files: [first, last], redis: REDIS },
    { title: "Valkey 8.1.1 (/b)", files: [first, last], redis: VALKEY },
    { title: "other tests", files: [other], redis: REDIS },
  ]);
  assertEquals(roundsOf([first], [REDIS, VALKEY]).length, 2);
});
