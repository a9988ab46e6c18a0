import type { Command } from '../command.ts';
import { approve } from './approve.ts';
import { archive } from './archive.ts';
import { cancel } from './cancel.ts';
import { goOn } from './continue.ts';
import { deny } from './deny.ts';
import { doctor } from './doctor.ts';
import { jobs } from './jobs.ts';
import { list } from './list.ts';
import { log } from './log.ts';
import { fresh } from './new.ts';
import { pause } from './pause.ts';
import { plan } from './plan.ts';
import { rebuild } from './rebuild.ts';
import { remove } from './remove.ts';
import { rename } from './rename.ts';
import { run } from './run.ts';
import { saveTemplate } from './save-template.ts';
import { send } from './send.ts';
import { show } from './show.ts';
import { start } from './start.ts';
import { status } from './status.ts';
import { stop } from './stop.ts';
import { stopRun } from './stop-run.ts';
import { takeover } from './takeover.ts';
import { templates } from './templates.ts';
import { undo } from './undo.ts';
import { watch } from './watch.ts';
import { why } from './why.ts';

/** Every command, in the order of `--help`. */
export const COMMANDS: readonly Command[] = [
  ...[start, stop, takeover, status],
  ...[send, run, goOn, pause, stopRun, cancel, undo, fresh, approve, deny],
  ...[list, show, plan, why, jobs, watch, log],
  ...[templates, saveTemplate],
  ...[archive, remove, rename, rebuild, doctor],
];
