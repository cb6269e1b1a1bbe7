import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { runCommand } from "../../../testing/servers/command.ts";
import { imageOf } from "../../../testing/servers/find_docker.ts";
import { CONDITION_BOUND_MS } from "../../../testing/time.ts";

Deno.test("imageOf() reads pinned images of both servers from compose.yaml", async () => {
  const compose = await Deno.readTextFile(new URL("../../../compose.yaml", import.meta.url));
  assertMatch(imageOf("redis", compose), /^redis:\d+\.\d+\.\d+/);
  assertMatch(imageOf("zookeeper", compose), /^zookeeper:\d+\.\d+\.\d+/);
  assertThrows(() => imageOf("other", compose), Error, "names no image for other");
});

Deno.test("imageOf() throws for a service without an image instead of reading the next one", () => {
  const compose = "services:\n  a:\n    build: .\n\n  b:\n    ports: []\n    image: b:1\n";
  assertEquals(imageOf("b", compose), "b:1");
  assertThrows(() => imageOf("a", compose), Error);
});

Deno.test("runCommand() reports failure for a command that does not exist or takes too long", async () => {
  assertEquals((await runCommand(["no-such-program"], 1_000)).success, false);
  assertEquals((await runCommand(["sleep", "300"], 50)).success, false);
  const both = await runCommand(["sh", "-c", "echo out; echo err >&2"], CONDITION_BOUND_MS);
  assertEquals(both, { success: true, output: "out\nerr\n" });
});
