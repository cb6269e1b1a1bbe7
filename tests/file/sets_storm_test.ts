/**
 * Overlapping sets of names by several processes, under kills.
 */
import { setsStorm } from "../../testing/load/sets_storm.ts";

const SOAK = Boolean(Deno.env.get("HOLDFAST_SOAK"));

Deno.test({
  name: `acquireAll() of overlapping sets never deadlocks and leaks no name under kills: FileLock${
    SOAK ? "" : " [soak only]"
  }`,
  ignore: !SOAK,
  async fn() {
    const dir = await Deno.makeTempDir({ prefix: "holdfast-" });
    try {
      const spec = { strategy: "file", dir } as const;
      await setsStorm({ spec, calmSpec: spec });
    } finally {
      await Deno.remove(dir, { recursive: true });
    }
  },
});
