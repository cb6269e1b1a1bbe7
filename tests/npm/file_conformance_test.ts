import { existsSync } from "node:fs";
import process from "node:process";
import { npmConformance } from "../../testing/npm/conformance.ts";
import { NODE_22 } from "../../testing/npm/runtimes.ts";

const hasPort = existsSync(new URL("../../file/system/node.ts", import.meta.url));
const canSeeLocks = process.platform === "linux"; // by flock(1)

await npmConformance({
  suite: "file_test",
  runtimes: [NODE_22],
  skip: !hasPort
    ? "FileLock works with Deno only"
    : canSeeLocks
    ? undefined
    : "flock(1) shows which files are locked, on Linux only",
});
