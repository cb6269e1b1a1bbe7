/**
 * `deno task servers`: gets newer servers from Debian for `deno task test --servers`. Unpacks them
 * into `.servers/`; installs nothing.
 *
 * @module
 */
// deno-lint-ignore-file no-console -- this is a command
import { rm } from "node:fs/promises";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { runCommand } from "../../testing/servers/command.ts";
import { type Apt, configuredMirrors, openApt, verification } from "./apt.ts";
import { type Package, packagesOf } from "./packages.ts";
import { unpack, writeWrapper } from "./unpack.ts";

const RELEASE = "trixie";
const PROGRAMS = ["redis-server", "valkey-server"];
const PLACE = ".servers";
const FOLDER = fileURLToPath(new URL(`../../${PLACE}`, import.meta.url));
const APT_FOLDER = `${FOLDER}/apt`;
const START_BOUND_MS = 20_000;

const USAGE = `Usage: deno task servers [options]

Gets Redis 8 and Valkey 8 from Debian ${RELEASE} into ${PLACE}/, with all libraries that they need.
Installs nothing and needs no root. Needs apt and dpkg-deb, so Debian or Ubuntu.

  --mirror URL  a mirror of Debian; by default those in apt's configuration, whose proxies are used
  --unsigned    uses packages although their signature cannot be verified
  --help        prints this text`;

if (import.meta.main) process.exit(await main());

async function main(): Promise<number> {
  let options;
  try {
    options = readArguments(process.argv.slice(2));
  } catch (error) {
    console.error(`${(error as Error).message}\n\n${USAGE}`);
    return 2;
  }
  if (options.help) {
    console.log(USAGE);
    return 0;
  }
  try {
    await getServers(options.mirror, options.unsigned);
    return 0;
  } catch (error) {
    console.error(`Cannot get the servers: ${(error as Error).message}`);
    return 1;
  }
}

function readArguments(args: string[]) {
  return parseArgs({
    args,
    options: {
      mirror: { type: "string" },
      unsigned: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  }).values;
}

async function getServers(mirror: string | undefined, isUnsigned: boolean): Promise<void> {
  const mirrors = mirror === undefined ? await configuredMirrors() : [mirror];
  const apt = await openFirst(mirrors, isUnsigned);
  const packages = new Map<string, Package>();
  for (const program of PROGRAMS) {
    const needed = await packagesOf(program, apt.index);
    console.log(`${program} ${needed[0]!.version}: ${needed.map(({ name }) => name).join(", ")}`);
    for (const each of needed) packages.set(each.name, each);
  }
  const all = [...packages.values()];
  const megabytes = all.reduce((sum, { size }) => sum + size, 0) / 1e6;
  console.log(`Downloading ${all.length} packages (${megabytes.toFixed(1)} MB)`);
  const files = await apt.download(all);
  console.log(`Unpacking them into ${PLACE}/${RELEASE}`);
  await unpack(files, `${FOLDER}/${RELEASE}`);
  for (const program of PROGRAMS) console.log(await makeStartable(program));
  await rm(APT_FOLDER, { recursive: true });
  const servers = PROGRAMS.map((program) => `redis=${PLACE}/${program}`).join(",");
  console.log(`\nTo test with them: deno task test --only redis --servers ${servers}`);
}

/** Uses the first mirror that has the release: apt's configuration may also name other packages. */
async function openFirst(mirrors: readonly string[], isUnsigned: boolean): Promise<Apt> {
  const problems: string[] = [];
  for (const mirror of mirrors) {
    console.log(`Reading the index of ${RELEASE} from ${mirror}`);
    try {
      const apt = await openApt({ folder: APT_FOLDER, mirror, release: RELEASE, isUnsigned });
      console.log(`Its signature was ${verification(isUnsigned)}`);
      return apt;
    } catch (error) {
      problems.push(`${mirror}: ${(error as Error).message}`);
    }
  }
  const advice = "Name a mirror of Debian with --mirror";
  throw new Error(["no mirror has packages to use", ...problems, advice].join("\n"));
}

/** Resolves with the first line that the program prints about its version. */
async function makeStartable(program: string): Promise<string> {
  const path = `${FOLDER}/${program}`;
  await writeWrapper(`${FOLDER}/${RELEASE}`, program, path);
  const { success, output } = await runCommand([path, "--version"], START_BOUND_MS);
  if (!success) throw new Error(`${path} does not start: ${output.trim()}`);
  return output.trim();
}
