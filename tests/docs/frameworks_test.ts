/**
 * The table of versions in `docs/frameworks.md` is what the tests import.
 * Its first program does not take a refused shipment for a success.
 */
import { assert, assertEquals } from "@std/assert";
import { freePort } from "../../testing/servers/ports.ts";
import { waitUntil } from "../../testing/servers/wait.ts";
import { documentedSnippets } from "../../tools/docs/snippets.ts";
import { userImports } from "../../tools/import_map.ts";

const ROOT = new URL("../../", import.meta.url);
const ROW = /^\| [^|]*\(`([^`]+)`\) *\| ([\d, ]+?) *\| ([\d., ]+?) *\|$/gm;
/** Next.js is not imported: the soak installs it. */
const NEXT_APP = "testing/npm/next_app.ts";

function read(file: string): string {
  return Deno.readTextFileSync(new URL(file, ROOT));
}

const rows = [...read("docs/frameworks.md").matchAll(ROW)].map(([, name, versions, tested]) => ({
  name: name!,
  versions: versions!.split(", "),
  tested: tested!.split(", "),
}));
const imports: string[] = Object.values(JSON.parse(read("deno.json")).imports);

Deno.test("docs/frameworks.md names the versions that the tests import", () => {
  assertEquals(rows.length, 7);
  const sources = [...imports, read(NEXT_APP)].join("\n");
  const wrong = rows.flatMap(({ name, tested }) => {
    return tested.map((version) => `${name}@${version}`).filter((spec) => !sources.includes(spec));
  });
  assertEquals(wrong, []);
  for (const { name, versions, tested } of rows) {
    assert(tested.every((version) => versions.includes(version.split(".")[0]!)), name);
  }
});

Deno.test("docs/frameworks.md: the first program answers with an error when the shipment is refused", async () => {
  const { code } = documentedSnippets().find(({ file }) => file.endsWith("frameworks.md"))!;
  await using refusing = Deno.serve(
    { port: 0, onListen() {} },
    () => new Response("", { status: 500 }),
  );
  await using stack = new AsyncDisposableStack();
  const script = await Deno.makeTempFile({ suffix: ".js" });
  stack.defer(() => Deno.remove(script));
  const port = freePort();
  const origin = `http://127.0.0.1:${refusing.addr.port}`;
  const placed = code.replace("https://example.com", origin).replace("port: 8080", `port: ${port}`);
  await Deno.writeTextFile(script, placed);
  const map = encodeURIComponent(JSON.stringify({ imports: await userImports() }));
  const args = ["run", "-A", "-q", `--import-map=data:application/json,${map}`, script];
  const env = { XDG_RUNTIME_DIR: await Deno.makeTempDir() };
  stack.defer(() => Deno.remove(env.XDG_RUNTIME_DIR, { recursive: true }));
  const child = new Deno.Command(Deno.execPath(), { args, env, stderr: "null" })
    .spawn();
  stack.defer(async () => {
    child.kill("SIGKILL");
    await child.status;
  });
  let response: Response | undefined;
  await waitUntil("it answers", async () => {
    const post = fetch(`http://127.0.0.1:${port}/orders/42`, { method: "POST" });
    response = await post.catch(() => undefined); // it does not listen yet
    return response !== undefined;
  });
  assertEquals([response!.status, (await response!.text()).includes("shipped")], [500, false]);
});
