import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { freePort } from "../../testing/servers/ports.ts";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";
import { called, withClient } from "../../testing/servers/zookeeper_cleanup.ts";
import { runDemo, runDemoOnServer } from "../../testing/examples/run_demo.ts";

Deno.test("demo.ts shows that the ZooKeeper lock loses no update", async () => {
  const { code, out, errors } = await runDemoOnServer("--backend", "zookeeper", "--rounds", "5");
  assertEquals([code, errors], [0, ""]);
  assertMatch(out, /under the lock +20 +20 +nothing lost/);
  assertStringIncludes(out, "ok      each grant has a greater fencing token\n");
});

Deno.test("demo.ts --kill loses no update when the holder of the ZooKeeper lock is killed", async () => {
  const args = ["--backend", "zookeeper", "--kill", "--rounds", "6"];
  const { code, out, errors } = await runDemoOnServer(...args);
  assertEquals([code, errors], [0, ""]);
  assertMatch(out, /under the lock +(\d+) +\1 +nothing lost/);
  assertMatch(out, /ok {6}worker \d was killed and the others went on\n/);
  assertMatch(out, /The next grant came \d+ ms later; the dead holder's session had to expire/);
});

Deno.test("demo.ts leaves nothing behind on the ZooKeeper given by --url", async () => {
  await using server = await startZooKeeper();
  const url = server.connectString;
  const args = ["--backend", "zookeeper", "--workers", "2", "--rounds", "2", "--url", url];
  const { code, out, errors } = await runDemoOnServer(...args);
  assertEquals([code, errors], [0, ""]);
  assertStringIncludes(out, "ZooKeeper: the server given by --url, under a random name");
  const children = await withClient(
    url,
    (client) => called<string[]>("Listing /", (done) => client.getChildren("/", done)),
  );
  assertEquals(children, ["zookeeper"]);
});

Deno.test("demo.ts reports that ZooKeeper does not answer", async () => {
  const url = `127.0.0.1:${freePort()}`;
  const { code, errors } = await runDemo("--backend", "zookeeper", "--url", url);
  assertEquals(code, 1);
  assertStringIncludes(errors, "Cannot use the ZooKeeper at the address given by --url: start it");
});
