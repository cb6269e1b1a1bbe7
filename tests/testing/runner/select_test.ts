import { assertEquals } from "@std/assert";
import { selectFiles, strategyOf } from "../../../testing/runner/select.ts";

Deno.test("strategyOf() and selectFiles() go by the folder and the name of a test file", () => {
  const strategies = {
    "tests/memory/a_test.ts": "memory",
    "/somewhere/tests/file/deep/a_test.ts": "file",
    "/home/tests/project/tests/redis/a_test.ts": "redis",
    "tests/conformance/redis_ioredis_test.ts": "redis",
    "tests/conformance/zookeeper_test.ts": "zookeeper",
    "tests/testing/servers/redis_test.ts": "redis",
    "tests/testing/servers/proxy_test.ts": undefined,
    "tests/core/memory_test.ts": undefined,
    "tests/file_test.ts": "file",
    "tests/entry_points_test.ts": undefined,
    "tests/testing/servers/find_test.ts": undefined,
  };
  for (const [path, strategy] of Object.entries(strategies)) {
    assertEquals(strategyOf(path), strategy, path);
  }
  const paths = Object.keys(strategies);
  assertEquals(selectFiles(paths, ["memory"]).length, 5);
  assertEquals(selectFiles(paths, ["redis", "zookeeper"]).length, 8);
});
