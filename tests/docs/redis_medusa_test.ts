/** The locking provider for Medusa of `docs/recipes.md`, in two processes that share a Redis server. */
import { assertEquals, assertRejects } from "@std/assert";
import { makeTempDirectory } from "../../testing/runtime/temporary_files.ts";
import { startRedis } from "../../testing/servers/redis.ts";
import { userImports } from "../../tools/import_map.ts";
import { documentedSnippets } from "../../tools/docs/snippets.ts";

interface Terms {
  readonly ownerId?: string;
  readonly expire?: number;
}

interface Provider {
  acquire(keys: string | string[], args?: Terms): Promise<void>;
  release(keys: string | string[], args?: Terms): Promise<boolean>;
  releaseAll(args?: Terms): Promise<void>;
  shutdown(): Promise<void>;
}

/** Two processes with the provider, under key names that both know. */
async function openProviders(): Promise<AsyncDisposable & Record<"first" | "second", Provider>> {
  const { code } = documentedSnippets().find(({ code }) => code.includes("HoldfastLocking"))!;
  await using stack = new AsyncDisposableStack();
  const server = stack.use(await startRedis());
  const imports = await userImports();
  const module = code.split("\nconst provider = ")[0]!
    .replace("6379", String(server.port))
    .replaceAll(/ from "(.*)"/g, (_, name: string) => ` from ${JSON.stringify(imports[name])}`);
  const dir = await makeTempDirectory();
  stack.defer(() => Deno.remove(dir, { recursive: true }));
  const open = async (name: string): Promise<Provider> => {
    const file = `${dir}/${name}.js`;
    await Deno.writeTextFile(file, `${module}\nexport { HoldfastLocking };\n`);
    const { HoldfastLocking } = await import(`file://${file}`);
    const provider: Provider = new HoldfastLocking();
    stack.defer(() => provider.shutdown());
    return provider;
  };
  const [first, second] = [await open("first"), await open("second")];
  const moved = stack.move();
  return { first, second, [Symbol.asyncDispose]: () => moved.disposeAsync() };
}

function refuses(acquired: Promise<void>): Promise<Error> {
  return assertRejects(() => acquired, Error, "Failed to acquire lock");
}

Deno.test("the provider for Medusa releases what a refused acquire() has taken, and not what its owner held before", async () => {
  await using providers = await openProviders();
  const { first, second } = providers;
  await first.acquire("cart", { ownerId: "tx", expire: 60 });
  await second.acquire("stock", { ownerId: "another", expire: 60 });
  await refuses(second.acquire(["stock", "cart", "prices"], { ownerId: "tx", expire: 60 }));
  await refuses(second.acquire("cart", { ownerId: "another" }));
  await second.acquire("prices", { ownerId: "another" });
  assertEquals(await second.release(["cart", "cart"], { ownerId: "another" }), false);
  assertEquals(await second.release("cart", { ownerId: "tx" }), true);
  await first.acquire(["cart", "cart"], { ownerId: "another" });
});

Deno.test("the provider for Medusa refuses an acquire() without an owner while anybody holds the key", async () => {
  await using providers = await openProviders();
  const { first, second } = providers;
  const acquired = await Promise.allSettled(
    [first, second, first, second].map((each) => each.acquire("stock")),
  );
  assertEquals(acquired.filter(({ status }) => status === "fulfilled").length, 1);
  await refuses(second.acquire("stock", { ownerId: "tx" }));
  assertEquals(await second.release("stock"), true, "anybody may release it");
  await first.acquire("stock", { ownerId: "tx" });
  await refuses(second.acquire(["cart", "stock"]));
  await second.acquire("cart");
});

Deno.test("the provider for Medusa releases all keys of one owner, whichever process has acquired them", async () => {
  await using providers = await openProviders();
  const { first, second } = providers;
  await first.acquire(["cart", "stock"], { ownerId: "tx" });
  await first.acquire("prices", { ownerId: "another" });
  await second.releaseAll({ ownerId: "tx" });
  await second.acquire(["cart", "stock"]);
  await refuses(second.acquire("prices"));
});
