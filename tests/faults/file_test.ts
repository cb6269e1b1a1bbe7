import { shortRun } from "../../testing/faults/short_run.ts";

Deno.test("FileLock holds its promises under fire", () => shortRun({ strategy: "file" }));
