/**
 * The entry points of `deno.json`, imported as by a Deno script: by URL, without a configuration file.
 *
 * @module
 */
import { assert, assertEquals } from "@std/assert";

const ROOT = new URL("../", import.meta.url);

/** The exports that each entry must have, at least. */
const EXPORTS: Record<string, string[]> = {
  ".": ["MemoryLock", "LockError", "LeaseLostError", "LockSetupError", "LockUnavailableError"],
  "./file": ["FileLock"],
  "./open": ["openLock"],
  "./web-locks": ["webLocks"],
  "./redis": ["RedisLock"],
  "./redis/node-redis": ["nodeRedis"],
  "./redis/ioredis": ["ioredis"],
  "./redis/deno-redis": ["denoRedis"],
  "./zookeeper": ["ZooKeeperLock"],
  "./http": ["fetchLock"],
  "./http/koa": ["koaLock"],
  "./http/express": ["expressLock"],
  "./http/fastify": ["fastifyLock"],
  "./http/hono": ["honoLock"],
  "./http/lambda": ["lambdaLock", "RetryableLockError"],
  "./http/nestjs": ["Lock", "LockInterceptor", "HeldLease", "RunOnce"],
  "./lock-service": ["lockRoutes"],
  "./fencing": ["fencedRedis", "fencedHttp", "fenceHeader", "MemoryFences", "StaleTokenError"],
  "./otel": ["instrumentLocks"],
  "./timeline": ["recordLocks", "drawLocks"],
  "./testing": ["FakeLock", "FakeClock"],
  "./recipes": ["runOnce", "lead"],
  "./adapters/node-cron": ["runCoordinator"],
  "./redlock": ["Redlock", "Lock", "ExecutionError", "ResourceLockedError"],
};

interface Configuration {
  exports: Record<string, string>;
  publish: { include: string[]; exclude: string[] };
}

function configuration(): Configuration {
  return JSON.parse(Deno.readTextFileSync(new URL("deno.json", ROOT)));
}

/** Serves the published files only. */
function serve(included: string[]): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const path = new URL(request.url).pathname.slice(1);
    if (!included.some((prefix) => path.startsWith(prefix))) {
      return new Response("not published", { status: 404 });
    }
    const text = await Deno.readTextFile(new URL(path, ROOT));
    // As the raw files of a repository are served.
    return new Response(text, { headers: { "content-type": "text/plain; charset=utf-8" } });
  });
}

async function run(args: string[], code: string, cwd: string): Promise<string> {
  const script = `${cwd}/script.ts`;
  await Deno.writeTextFile(script, code);
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "--no-lock", "--check", ...args, script],
    cwd,
    env: { NO_COLOR: "1" },
  }).output();
  assert(success, new TextDecoder().decode(stderr));
  return new TextDecoder().decode(stdout).trim();
}

Deno.test("deno.json: every entry point can be imported by URL without a configuration file", async () => {
  const { exports, publish } = configuration();
  // The command is a program: `tests/command/` runs it.
  const imported = Object.keys(exports).filter((entry) => entry !== "./command");
  assertEquals(imported, Object.keys(EXPORTS));
  const server = serve(publish.include);
  const cwd = await Deno.makeTempDir();
  try {
    const host = `127.0.0.1:${server.addr.port}`;
    const [base, allowed] = [`http://${host}/`, `--allow-import=${host}`];
    // One program for all entries: each program is type-checked with all files that it imports.
    const entries = Object.entries(EXPORTS).map(([entry, names], i) => {
      const renamed = names.map((name) => [name, `${name}${i}`] as const);
      const url = new URL(exports[entry]!, base).href;
      const specifiers = renamed.map(([name, local]) => `${name} as ${local}`);
      const locals = renamed.map(([, local]) => local);
      return `import { ${specifiers.join(", ")} } from "${url}";
        console.log(${i}, [${locals.join(", ")}].map((value) => typeof value).join());`;
    });
    const output = await run([allowed], entries.join("\n"), cwd);
    const expected = Object.values(EXPORTS).map((names, i) =>
      `${i} ${names.map(() => "function").join()}`
    );
    assertEquals(output.split("\n"), expected);
    const [main, file] = [".", "./file"].map((entry) => new URL(exports[entry]!, base).href);
    const code = `import { MemoryLock } from "${main}";
      import { FileLock } from "${file}";
      await using memory = new MemoryLock();
      await using files = new FileLock({ dir: "./locks" });
      for (const locks of [memory, files]) console.log(await locks.request("n", (lease) => lease.name));`;
    const printed = await run([allowed, "--allow-read", "--allow-write"], code, cwd);
    assertEquals(printed, "n\nn");
  } finally {
    await server.shutdown();
    await Deno.remove(cwd, { recursive: true });
  }
});

Deno.test("deno.json: published files import only relative paths, node: and one npm: package; ./http/nestjs also those of Nest, ./otel that of OpenTelemetry", () => {
  const specifiers: string[] = [];
  for (const path of published("")) {
    const text = Deno.readTextFileSync(new URL(path, ROOT)).replace(/^\s*\*.*$/gm, "");
    for (const [, specifier] of text.matchAll(/\bfrom "([^"]+)"|\bimport\("([^"]+)"\)/g)) {
      if (specifier !== undefined && !specifier.startsWith(".")) {
        specifiers.push(`${path} ${specifier}`);
      }
    }
  }
  const foreign = specifiers.filter((specifier) => !specifier.includes(" node:"));
  assertEquals(foreign.toSorted(), [
    "http/internal/nest_run_once.ts npm:@nestjs/common@x",
    "http/nestjs.ts npm:@nestjs/common@x",
    "http/nestjs.ts npm:rxjs@^7.1.0",
    "otel/mod.ts npm:@opentelemetry/api@^1.9.0",
    "zookeeper/connection/client_module.ts npm:node-zookeeper-client@1.1.3",
  ]);
});

Deno.test("deno.json: JSR gets no module that only the npm package uses", () => {
  const twin = "zookeeper/connection/client_module_npm.ts";
  assert(Deno.statSync(new URL(twin, ROOT)).isFile);
  assert(!published("").includes(twin));
});

Deno.test("core/ does no I/O, and only file/ uses Deno.*", () => {
  for (const path of published("")) {
    if (path.startsWith("file/")) continue;
    const code = Deno.readTextFileSync(new URL(path, ROOT)).replace(/^\s*(\*|\/\/|\/\*).*$/gm, "");
    assert(!/\bDeno\./.test(code), `${path} uses Deno.*`);
    // `node:async_hooks` tells which call a piece of code belongs to, `node:diagnostics_channel` publishes
    // within the process. Neither does I/O.
    if (path.startsWith("core/")) {
      assert(
        !/from "(node:(?!(async_hooks|diagnostics_channel)")|npm:)/.test(code),
        `${path} does I/O`,
      );
    }
  }
});

/** The TypeScript files that are published. */
function published(folder: string): string[] {
  const { publish } = configuration();
  return [...Deno.readDirSync(new URL(folder || ".", ROOT))].flatMap(({ name, isDirectory }) => {
    const path = folder + name + (isDirectory ? "/" : "");
    if (!publish.include.some((prefix) => path.startsWith(prefix))) return [];
    // The pattern of the files that only the npm package has.
    const isExcluded = publish.exclude.includes("**/*_npm.ts") && path.endsWith("_npm.ts");
    return isDirectory ? published(path) : path.endsWith(".ts") && !isExcluded ? [path] : [];
  });
}
