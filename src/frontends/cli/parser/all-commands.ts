import { channel } from '../admin/channel-command.ts';
import { config } from '../admin/config-file.ts';
import { acp, open, otel, serve, token } from '../admin/connect-commands.ts';
import { exportCommand, fork, importCommand } from '../admin/copy-sessions.ts';
import { help } from '../admin/help-pages.ts';
import { archive, doctor, rebuild, remove, rename, settings } from '../admin/maintenance.ts';
import { mcp } from '../admin/mcp-command.ts';
import { service } from '../admin/service-command.ts';
import { repair, upgrade } from '../admin/upgrade-command.ts';
import { usage } from '../admin/usage-report.ts';
import { restart, start, stop, takeover } from '../commands/daemon-lifecycle.ts';
import { list } from '../commands/list.ts';
import { plan } from '../commands/plan-actions.ts';
import {
  approvals,
  approve,
  cancel,
  continueRun,
  deny,
  jobs,
  newConversation,
  pause,
  stopRun,
} from '../commands/run-control.ts';
import { schedule } from '../commands/schedule-command.ts';
import { reply, send } from '../commands/send.ts';
import { log, why } from '../commands/session-history.ts';
import { show } from '../commands/show.ts';
import { status } from '../commands/status.ts';
import { run, saveTemplate, templates } from '../commands/template-commands.ts';
import { watch } from '../commands/watch-run.ts';
import { diff, files, restore, undo } from '../commands/work-files-commands.ts';
import type { CliCommand } from '../common/command.ts';
import { chat, top } from '../live/live-commands.ts';

/** Every command, in the order of `--help`: those of every day first. */
export const COMMAND_GROUPS: Readonly<Record<string, readonly CliCommand[]>> = {
  'Every day': [start, send, list, show, watch, chat, continueRun, approve],
  Work: [run, reply, pause, stopRun, cancel, newConversation, approvals, deny, jobs, undo, restore],
  'Look closer': [top, plan, why, log, files, diff, usage],
  'The daemon': [stop, restart, status, doctor, service, upgrade, takeover],
  'Set up': [config, settings, schedule, templates, saveTemplate],
  Connect: [serve, open, token, channel, acp, mcp, otel],
  'Look after sessions': [archive, remove, rename, fork, exportCommand, importCommand, rebuild, repair],
  Help: [help],
};
export const COMMANDS = Object.values(COMMAND_GROUPS).flat();
