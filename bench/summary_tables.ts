/**
 * The tables of the summary in README: which figures they show, and their titles in both languages.
 *
 * @module
 */
import type { Place } from "./library/figures.ts";
import { MEASURES as CONTENDED } from "./suites/contended_report.ts";
import { CRASH_MEASURES } from "./suites/crashes.ts";
import { MEASURES as FILE } from "./suites/file.ts";
import { MEASURES as IDLE } from "./suites/idle.ts";
import { MEASURES as UNCONTENDED } from "./suites/uncontended_report.ts";
import { US } from "./suites/zookeeper_report.ts";

/** A text in English and in Chinese. */
export interface Text {
  readonly en: string;
  readonly zh: string;
}

/** A row: the same measure of each contender, in one or more places. */
export interface Row {
  readonly title: Text;
  readonly suite: string;
  readonly measure: string;
  readonly places: readonly Place[];
  /** Whether the cells are ratios to the bare commands. */
  readonly isRatio?: boolean;
}

/** A table: rows that compare the same contenders. */
export interface SummaryTable {
  readonly title: Text;
  readonly contenders: readonly string[];
  readonly rows: readonly Row[];
}

/** The head of the column with the commands. */
export const PRINTED_BY: Text = { en: "printed by", zh: "命令" };
/** The title of the plot. */
export const PLOT: Text = {
  en: "Grants per second by number of waiters",
  zh: "每秒授予次数与等待者数量的关系",
};

const CALLS = [1, 8, 64];

/** The time of a cycle of a free lock on Redis, as a ratio to the bare commands. */
function cycle(title: Text, client: string): Row {
  const places = CALLS.map((calls) => ({ client, calls, "added round trip ms": 0 }));
  return { title, suite: "uncontended", measure: UNCONTENDED.time, places, isRatio: true };
}

function crowd(title: Text, measure: string, waiters: number, holdMs: number): Row {
  const place = { client: "ioredis", waiters, processes: 4, "hold ms": holdMs };
  return { title, suite: "contended", measure, places: [place] };
}

function files(title: Text, measure: string, place: Place): Row {
  return { title, suite: "file", measure, places: [place] };
}

function ensemble(title: Text, contenders: number): Row {
  return { title, suite: "zookeeper", measure: US, places: [{ servers: 3, contenders }] };
}

/** All tables. Rows of a suite that was not measured are left out. */
export const TABLES: readonly SummaryTable[] = [
  {
    title: { en: "Redis", zh: "Redis" },
    contenders: ["holdfast", "redlock", "redis-semaphore", "redlock-universal"],
    rows: [
      cycle(
        {
          en: `free lock: time ÷ that of bare commands, ${CALLS.join(" / ")} calls at once`,
          zh: `空闲锁：耗时 ÷ 裸命令的耗时，${CALLS.join(" / ")} 个并发调用`,
        },
        "ioredis",
      ),
      cycle({ en: "… with node-redis", zh: "…… 使用 node-redis" }, "node-redis"),
      crowd(
        {
          en: "10 waiters in 4 processes, released at once: grants per second",
          zh: "4 个进程、10 个等待者，立即释放：每秒授予次数",
        },
        CONTENDED.rate,
        10,
        0,
      ),
      crowd(
        {
          en: "100 waiters in 4 processes, held for 1 ms: grants per second",
          zh: "4 个进程、100 个等待者，持有 1 ms：每秒授予次数",
        },
        CONTENDED.rate,
        100,
        1,
      ),
      crowd(
        { en: "… polling: commands per grant", zh: "…… 轮询：每次授予的命令数" },
        CONTENDED.commands,
        100,
        1,
      ),
      crowd(
        { en: "… fairness: grants out of order, %", zh: "…… 公平：乱序授予的比例，%" },
        CONTENDED.inversions,
        100,
        1,
      ),
      crowd(
        { en: "… fairness: longest waits (p99), ms", zh: "…… 公平：最长等待（p99），ms" },
        CONTENDED.p99,
        100,
        1,
      ),
      {
        title: { en: "50 idle waiters: commands per second", zh: "50 个空闲等待者：每秒命令数" },
        suite: "idle",
        measure: IDLE.commands,
        places: [{ client: "ioredis", waiters: 50 }],
      },
    ],
  },
  {
    title: { en: "Files", zh: "文件" },
    contenders: ["holdfast", "proper-lockfile", "flock(1)"],
    rows: [
      files(
        { en: "killed holder: ms to the next grant", zh: "持有者被杀：到下一次获锁的耗时（ms）" },
        CRASH_MEASURES.holder,
        {},
      ),
      files(
        {
          en: "10 processes, held for 1 ms: grants per second",
          zh: "10 个进程，持有 1 ms：每秒授予次数",
        },
        FILE.rate,
        { processes: 10 },
      ),
      files(
        {
          en: "… fairness: % of an equal share for the least served",
          zh: "…… 公平：得到最少的进程占平均份额的 %",
        },
        FILE.least,
        { processes: 10 },
      ),
    ],
  },
  {
    title: { en: "ZooKeeper", zh: "ZooKeeper" },
    contenders: ["holdfast", "curator", "kazoo"],
    rows: [
      ensemble(
        {
          en: "free lock, 3 servers: µs per cycle",
          zh: "空闲锁、3 台服务器：每次加解锁耗时（µs）",
        },
        1,
      ),
      ensemble(
        {
          en: "100 contenders, 3 servers: µs per cycle",
          zh: "100 个竞争者、3 台服务器：每次加解锁耗时（µs）",
        },
        100,
      ),
    ],
  },
];
