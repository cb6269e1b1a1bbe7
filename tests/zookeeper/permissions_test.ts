import { assertEquals } from "@std/assert";
import { startZooKeeper } from "../servers/zookeeper.ts";

Deno.test("ZooKeeperLock needs --allow-net for the server, and nothing else", async () => {
  await using server = await startZooKeeper();
  const dir = await Deno.makeTempDir();
  const entry = JSON.stringify(new URL("../../zookeeper/mod.ts", import.meta.url).href);
  await Deno.writeTextFile(
    `${dir}/script.ts`,
    `import { ZooKeeperLock } from ${entry};
     await using locks = new ZooKeeperLock(${JSON.stringify(server.connectString)});
     console.log(await locks.request("n", (lease) => lease.renew().then(() => "done")));`,
  );
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", `--allow-net=${server.connectString}`, `${dir}/script.ts`],
  }).output();
  await Deno.remove(dir, { recursive: true });
  assertEquals(new TextDecoder().decode(stdout).trim(), "done", new TextDecoder().decode(stderr));
});
