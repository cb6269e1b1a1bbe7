import { assertEquals } from "@std/assert";
import { CONDITION_BOUND_MS, KEPT_SESSION_MS } from "../../testing/time.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../testing/servers/zookeeper.ts";

let server: ZooKeeperServer;

Deno.test.beforeAll(async () => {
  server = await startZooKeeper();
});
Deno.test.afterAll(async () => {
  await server[Symbol.asyncDispose]();
});

Deno.test("ZooKeeperLock needs --allow-net for the server, and nothing else", async () => {
  const output = await run(
    [`--allow-net=${server.connectString}`],
    `
    await using locks = new ZooKeeperLock(${JSON.stringify(server.connectString)});
    console.log(await locks.request("n", (lease) => lease.renew().then(() => "done")));
  `,
  );
  assertEquals(output, "done");
});

Deno.test("ZooKeeperLock.acquire() rejects at once, and names the missing permission, without --allow-net", async () => {
  for (const [host, code] of [["127.0.0.1", "NotCapable"], ["localhost", "EPERM"]] as const) {
    const output = await run(
      [],
      `
      await using locks = new ZooKeeperLock("${host}:1", {
        unavailableAfterMs: ${CONDITION_BOUND_MS},
      });
      const error = await locks.acquire("n").catch((error) => error);
      console.log(error.name, error.message.includes("${host}:1: ${code}"), error.cause?.code);
    `,
    );
    // The message has all that the missing permission says, so that is no cause of it.
    assertEquals(output, `LockSetupError true ${code === "EPERM" ? code : undefined}`);
  }
});

Deno.test("ZooKeeperLock skips a server for which --allow-net is missing, and warns", async () => {
  const output = await run(
    [`--allow-net=${server.connectString}`],
    `
    // The servers are tried in a random order.
    for (let warnings = ""; !warnings.includes("NotCapable");) {
      await using locks = new ZooKeeperLock("127.0.0.1:1,${server.connectString}", {
        onWarning: (message) => warnings += message,
      });
      await (await locks.acquire("n")).release();
    }
    console.log("warned");
  `,
  );
  assertEquals(output, "warned");
});

Deno.test("ZooKeeperLock connects to a host with several addresses when --allow-net names only the host", async () => {
  const transport = JSON.stringify(
    new URL("../../zookeeper/connection/node_zookeeper_client.ts", import.meta.url).href,
  );
  const output = await run(
    [`--allow-net=localhost:${server.port}`],
    `
    import { openNodeZooKeeperClient } from ${transport};
    const transport = openNodeZooKeeperClient({
      listServers: () => Promise.resolve([{ host: "localhost", port: ${server.port} }]),
      lookUp: () => Promise.resolve(["127.0.0.9", "127.0.0.1"]),
      warn: (message) => console.log(message),
      sessionTimeoutMs: ${KEPT_SESSION_MS},
      unavailableAfterMs: ${CONDITION_BOUND_MS},
    });
    const { promise, resolve } = Promise.withResolvers();
    transport.setListener({ onStateChange: resolve, onPing: () => {} });
    console.log(await promise);
    transport.destroy();
  `,
  );
  assertEquals(output, "connected");
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
