import { shortRun } from "../../testing/faults/short_run.ts";

Deno.test("FileLock keeps its promises under faults", () => shortRun({ strategy: "file" }));
