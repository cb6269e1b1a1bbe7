/** The recipes on locks in files. */
import { rm } from "node:fs/promises";
import { lockPath } from "../../file/lock_directory.ts";
import { makeArena } from "../../testing/conformance/arena.ts";
import { recipes } from "../../testing/recipes/suite.ts";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";

const nothing = () => Promise.resolve();

recipes({
  name: "file",
  start: nothing,
  stop: nothing,
  async arena() {
    const dir = await makeTempDirectory();
    return makeArena({
      spec: ({ label, disposeTimeoutMs }) => ({ strategy: "file", dir, label, disposeTimeoutMs }),
      lose: ({ name }) => rm(lockPath(dir, name)),
      residue: () => Promise.resolve([]),
      close: () => rm(dir, { recursive: true }),
    });
  },
});
