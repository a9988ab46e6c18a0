import * as fs from 'node:fs';
import { errorText } from '../../base/user-error.ts';
import type { Clock, SessionPorts } from '../../engine/ports/session-ports.ts';
import { type DaemonStatus, MAX_LISTED } from '../../protocol/workspace/daemon-files.ts';
import { replaceFile } from '../../store/index.ts';
import type { DiskMonitor } from '../host/disk.ts';
import type { RunSlots } from '../host/run-limits.ts';
import type { WorkspaceWatch } from '../watch/workspace-watch.ts';
import type { SessionPool } from './session-pool.ts';

const WRITE_EVERY_MS = 1000;

type StatusSources = {
  clock: Clock;
  log: SessionPorts['log'];
  sessions: SessionPool;
  watch: WorkspaceWatch;
  disk: DiskMonitor;
  mostOpen: number;
  settings: () => DaemonStatus['settings'];
  runSlots: RunSlots | undefined;
};

/**
 * Maintains `.agentd/status.json`: written when something in it changed, at most once a second, and removed at the end.
 * The file exists when this resolves. A failed write only causes a line in the log.
 */
export async function startStatusFile(path: string, sources: StatusSources): Promise<{ stop(): Promise<void> }> {
  let written = '';
  let lastError = '';
  let writing: Promise<void> = Promise.resolve();
  let busy = false;

  async function writeIfChanged(): Promise<void> {
    const now = statusBody(sources);
    const key = JSON.stringify(now);
    if (key === written) return;
    const status: DaemonStatus = { version: 2, at: sources.clock.now().toISOString(), pid: process.pid, ...now };
    try {
      await replaceOrOverwrite(path, `${JSON.stringify(status, null, 2)}\n`);
      written = key;
    } catch (error) {
      if (errorText(error) !== lastError) sources.log('warn', `${path} could not be written: ${errorText(error)}`);
      lastError = errorText(error);
    }
  }

  function tick(): void {
    if (busy) return;
    busy = true;
    writing = writeIfChanged().finally(() => {
      busy = false;
    });
  }

  await writeIfChanged();
  const timer = setInterval(tick, WRITE_EVERY_MS);
  timer.unref();
  return {
    async stop() {
      clearInterval(timer);
      await writing;
      try {
        fs.rmSync(path, { force: true });
      } catch {
        // A file left behind names a process that has ended.
      }
    },
  };
}

/** On a full disk it can only be overwritten in place: a reader may then see half of it, and reads again. */
async function replaceOrOverwrite(path: string, text: string): Promise<void> {
  try {
    await replaceFile(path, text);
  } catch (error) {
    if (!fs.existsSync(path)) throw error;
    fs.writeFileSync(path, text);
  }
}

function statusBody(sources: StatusSources): Omit<DaemonStatus, 'version' | 'at' | 'pid'> {
  const { sessions, watch, disk, mostOpen, settings, runSlots } = sources;
  const watching = watch.status();
  const { open, waiting } = sessions.counts();
  const trouble = sessions.listUnserved();
  const { free_mb, ...space } = disk.status();
  return {
    sessions: {
      known: watching.known,
      open,
      max_open: mostOpen,
      waiting,
      runs: runSlots?.count ?? 0,
      queued: runSlots?.queued() ?? [],
    },
    watching: {
      file_system: watching.fileSystem,
      watched: watching.watched,
      polled: watching.polled.length,
      why: watching.polled.length > 0 ? watching.why : null,
      names: watching.polled.slice(0, MAX_LISTED).sort(),
    },
    disk: { ...space, free_mb: roundToTwoDigits(free_mb) },
    settings: settings(),
    trouble: { total: trouble.length, sessions: trouble.slice(0, MAX_LISTED) },
  };
}

/** To two digits, so that a disk in use does not cause a write each second. */
function roundToTwoDigits(mb: number): number {
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(1, mb))) - 1);
  return Math.floor(mb / unit) * unit;
}
