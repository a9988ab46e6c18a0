import * as fs from 'node:fs';
import type { Clock, World } from '../engine/ports.ts';
import { errorText } from '../protocol/errors.ts';
import { type DaemonStatus, LISTED } from '../protocol/status.ts';
import { replaceFile } from '../store/index.ts';
import type { Disk } from './disk.ts';
import type { Sessions } from './sessions.ts';
import type { Watch } from './watch.ts';

const EVERY_MS = 1000;

type Sources = {
  clock: Clock;
  log: World['log'];
  sessions: Sessions;
  watch: Watch;
  disk: Disk;
  mostOpen: number;
  settings: () => DaemonStatus['settings'];
};

/**
 * Keeps `.agentd/status.json`: written where something in it changed, at most once a second, and removed at the end. It is there when this resolves. A failure to
 * write it is of no consequence but a line in the log.
 */
export async function tellStatus(path: string, sources: Sources): Promise<{ stop(): Promise<void> }> {
  let written = '';
  let said = '';
  let writing: Promise<void> = Promise.resolve();
  let busy = false;

  async function tell(): Promise<void> {
    const now = bodyOf(sources);
    const key = JSON.stringify(now);
    if (key === written) return;
    const status: DaemonStatus = { version: 1, at: sources.clock.now().toISOString(), pid: process.pid, ...now };
    try {
      await put(path, `${JSON.stringify(status, null, 2)}\n`);
      written = key;
    } catch (error) {
      if (errorText(error) !== said) sources.log('warn', `${path} could not be written: ${errorText(error)}`);
      said = errorText(error);
    }
  }

  function beat(): void {
    if (busy) return;
    busy = true;
    writing = tell().finally(() => {
      busy = false;
    });
  }

  await tell();
  const timer = setInterval(beat, EVERY_MS);
  timer.unref();
  return {
    async stop() {
      clearInterval(timer);
      await writing;
      try {
        fs.rmSync(path, { force: true });
      } catch {
        // A file that is left names a process that is gone.
      }
    },
  };
}

/** On a full disk there is room for it only where it was: then a reader may see half of it, and reads again. */
async function put(path: string, text: string): Promise<void> {
  try {
    await replaceFile(path, text);
  } catch (error) {
    if (!fs.existsSync(path)) throw error;
    fs.writeFileSync(path, text);
  }
}

function bodyOf({ sessions, watch, disk, mostOpen, settings }: Sources): Omit<DaemonStatus, 'version' | 'at' | 'pid'> {
  const watching = watch.told();
  const { open, waiting } = sessions.counts();
  const trouble = sessions.trouble();
  const { free_mb, ...room } = disk.told();
  return {
    sessions: { known: watching.known, open, most_open: mostOpen, waiting },
    watching: {
      file_system: watching.fileSystem,
      watched: watching.watched,
      polled: watching.polled.length,
      why: watching.polled.length > 0 ? watching.why : null,
      names: watching.polled.slice(0, LISTED).sort(),
    },
    disk: { ...room, free_mb: roughly(free_mb) },
    settings: settings(),
    trouble: { total: trouble.length, sessions: trouble.slice(0, LISTED) },
  };
}

/** To two digits, so that a disk in use does not have the file written each second. */
function roughly(mb: number): number {
  const unit = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(1, mb))) - 1);
  return Math.floor(mb / unit) * unit;
}
