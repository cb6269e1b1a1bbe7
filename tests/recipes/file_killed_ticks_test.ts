/** Ticks of a schedule with files, whose winners are killed: the mark ends with its process. */
import { rm } from "node:fs/promises";
import { checkKilledTicks } from "../../testing/recipes/ticks.ts";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";

const SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));
Deno.test({
  name: "runOnce() on files runs a tick twice only if its winner was killed" +
    (SOAK ? "" : " [soak only]"),
  ignore: !SOAK,
  fn: async () => {
    const dir = await makeTempDirectory();
    try {
      await checkKilledTicks({ strategy: "file", dir });
    } finally {
      await rm(dir, { recursive: true });
    }
  },
});
