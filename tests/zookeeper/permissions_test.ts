import { assertEquals } from "@std/assert";
import { startZooKeeper } from "../../testing/servers/zookeeper.ts";

Deno.test("ZooKeeperLock needs --allow-net for the server, and nothing else", async () => {
  await using server = await startZooKeeper();
  const output = await run(
    [`--allow-net=${server.connectString}`],
    `
    await using locks = new ZooKeeperLock(${JSON.stringify(server.connectString)});
    console.log(await locks.request("n", (lease) => lease.renew().then(() => "done")));
  `,
  );
  assertEquals(output, "done");
});

Deno.test("ZooKeeperLock.acquire() rejects in time, and names the missing permission, without --allow-net", async () => {
  const output = await run(
    [],
    `
    await using locks = new ZooKeeperLock("127.0.0.1:1", { unavailableAfterMs: 300 });
    const error = await locks.acquire("n").catch((error) => error);
    console.log(error.name, error.cause.cause.name, error.message.includes("--allow-net"));
  `,
  );
  assertEquals(output, "LockUnavailableError NotCapable true");
});

/** Runs a script with the given permissions; returns its output. */
async function run(permissions: readonly string[], script: string): Promise<string> {
  const dir = await Deno.makeTempDir();
  const entry = JSON.stringify(new URL("../../zookeeper/mod.ts", import.meta.url).href);
  const file = `${dir}/script.ts`;
  await Deno.writeTextFile(file, `import { ZooKeeperLock } from ${entry};\n${script}`);
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", ...permissions, file],
  }).output();
  await Deno.remove(dir, { recursive: true });
  return new TextDecoder().decode(stdout).trim() || new TextDecoder().decode(stderr);
}
