import { assert, assertEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import { runCommand } from "../servers/command.ts";
import { startRedis } from "../servers/redis.ts";
import { startService } from "./lock_service.ts";

const SCRIPT = fileURLToPath(new URL("./lock_service_curl.sh", import.meta.url));
/** What the script may take in ms: it starts curl some 300 times. */
const SCRIPT_MS = 120_000;

const curl = await runCommand(["curl", "--version"], 10_000).then(
  ({ success }) => success,
  () => false,
);

Deno.test({
  name: "the lock service keeps its word to curl" + (curl ? "" : " [skipped: there is no curl]"),
  ignore: !curl,
  async fn() {
    await using redis = await startRedis();
    await using service = await startService({ redisUrl: redis.url });
    const { success, output } = await runCommand(["sh", SCRIPT, service.url], SCRIPT_MS);
    assert(success, output);
    assert(/\d{3} checks passed/.test(output), output);
  },
});
