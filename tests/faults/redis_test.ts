import { shortRun } from "../../testing/faults/short_run.ts";

/** Without kills: after one, it takes half a minute until the dead waiters have left the queue. */
const FAULTS = [
  ...["worker-freeze", "delay", "dropped-reply", "late-command", "black-hole", "cut-mid-reply"],
  ...["client-kill", "script-flush", "flushall", "restart", "restart-empty", "replayed-commands"],
];

Deno.test(
  "RedisLock keeps its promises under faults",
  () => shortRun({ strategy: "redis", faults: FAULTS, habits: { crashes: 0 } }),
);
