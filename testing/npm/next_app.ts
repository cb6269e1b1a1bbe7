/**
 * An application of Next.js with the route of `examples/nextjs/`, built with the npm package, and its
 * processes. Next takes 350 MB, so only the soak uses it.
 *
 * @module
 */
import { cp, mkdir, readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { spawnProcess } from "../runtime/processes.ts";
import { freePort } from "../servers/ports.ts";
import { waitUntil } from "../servers/wait.ts";
import { COMPILERS, NODE_TYPES } from "./consumers.ts";
import { installPackages } from "./install.ts";
import { linkedProject } from "./project.ts";
import { NODE_22, programOf } from "./runtimes.ts";

const ROUTE = fileURLToPath(new URL("../../examples/nextjs/route.ts", import.meta.url));
const LAYOUT = `export default function Layout({ children }: { children: React.ReactNode }) {
  return <html><body>{children}</body></html>;
}`;
const NEXT = "node_modules/next/dist/bin/next";
const ENV = { NEXT_TELEMETRY_DISABLED: "1" };

/** The packages of the application, with the types that its build demands. */
export const NEXT_PACKAGES: readonly string[] = [
  ...["next@16.4.6", "react@19.3.1", "react-dom@19.3.1", "@types/react@19.3.0", "koffi@3.3.4"],
  ...[COMPILERS[0], NODE_TYPES],
];

/** A running process of the application. */
export interface NextProcess extends AsyncDisposable {
  readonly url: string;
}

/** The application, built. */
export interface NextApp extends AsyncDisposable {
  /** Starts a process; all of them share their locks. */
  start(): Promise<NextProcess>;
}

/** Builds the application, which checks the type of its route, too. */
export async function buildNextApp(): Promise<NextApp> {
  const packages = await installPackages(NEXT_PACKAGES);
  const project = await linkedProject();
  const { folder } = project;
  // Copies: the bundler follows no links out of the project.
  await cp(packages, `${folder}/node_modules`, { recursive: true, verbatimSymlinks: true });
  await project.write("package.json", JSON.stringify({ private: true, type: "module" }));
  await mkdir(`${folder}/app/orders/[id]`, { recursive: true });
  await project.write("app/layout.tsx", LAYOUT);
  await project.write("app/orders/[id]/route.ts", await readFile(ROUTE, "utf8"));
  const node = await programOf(NODE_22);
  const { success, output } = await project.run([node, NEXT, "build"], ENV);
  if (!success) throw new Error(`next build failed: ${output}`);
  return {
    start: () => startApp(node, folder),
    [Symbol.asyncDispose]: () => project[Symbol.asyncDispose](),
  };
}

async function startApp(node: string, cwd: string): Promise<NextProcess> {
  const port = freePort();
  const url = `http://127.0.0.1:${port}`;
  const child = spawnProcess([node, NEXT, "start", "-p", String(port), "-H", "127.0.0.1"], {
    cwd,
    env: { ...ENV, LOCK_DIR: `${cwd}/locks` },
  });
  await waitUntil("Next.js listens", async () => {
    try {
      const response = await fetch(url);
      await response.text();
      return true;
    } catch {
      return false;
    }
  });
  return {
    url,
    async [Symbol.asyncDispose]() {
      child.kill("SIGTERM");
      await child.ended;
    },
  };
}
