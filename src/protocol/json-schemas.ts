import { z } from 'zod';
import { Occurrence, Schedule } from './schedules/schedule.ts';
import { Event } from './session/event.ts';
import { MessageFile } from './session/message.ts';
import { NoticeBody } from './session/notice-file.ts';
import { Plan } from './session/plan.ts';
import { Reply } from './session/reply.ts';
import { Config, Settings } from './settings/config.ts';
import { ApprovalFile } from './settings/permissions.ts';
import { TemplateHead } from './templates/template.ts';
import { DaemonStatus } from './workspace/daemon-files.ts';
import { OwedFile } from './workspace/owed-file.ts';
import { UsageFile } from './workspace/usage-file.ts';

const FORMATS = {
  message: { schema: MessageFile, title: 'A .json message file in inbox/' },
  reply: { schema: Reply, title: 'A reply to a .json message, in outbox/' },
  plan: { schema: Plan, title: 'plan.json' },
  event: { schema: Event, title: 'One line of events.jsonl, without its crc' },
  agentd: { schema: Config, title: 'agentd.json, the configuration of a workspace' },
  status: { schema: DaemonStatus, title: '.agentd/status.json, what the daemon sees and cannot serve' },
  approval: { schema: ApprovalFile, title: 'A call that waits for a person, in approvals/' },
  template: { schema: TemplateHead, title: 'The front matter of templates/<name>.md' },
  schedule: { schema: Schedule, title: 'schedules/<name>.json, when a message is sent' },
  occurrence: { schema: Occurrence, title: 'schedules/<name>/<due time>.json, what became of one due time' },
  owed: { schema: OwedFile, title: '.agentd/owed.json, what is owed and not happening' },
  notice: { schema: NoticeBody, title: 'A notice: the body of a webhook' },
  usage: { schema: UsageFile, title: 'usage/<day>.json, what the model calls of a day have cost' },
  session: { schema: Settings, title: 'session.json, the settings of one session' },
} as const;

/** Editors do not warn of the keys for notes, which the daemon accepts in settings. */
const NOTES = { '^(?:x-|\\$)': {} };
const TAKES_NOTES: ReadonlySet<string> = new Set(['agentd', 'session']);

/** JSON Schemas of every file format, by file name. Generated: each format is defined only by its zod schema. */
export function publishedSchemas(): Record<string, object> {
  return Object.fromEntries(
    Object.entries(FORMATS).map(([name, { schema, title }]) => [
      `${name}.schema.json`,
      { ...z.toJSONSchema(schema, { io: 'input', override: TAKES_NOTES.has(name) ? withNotes : boundNumbers }), title },
    ]),
  );
}

/** The bound of a number or null is put where the number is, as strict validators want it. */
function boundNumbers({ jsonSchema }: { jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  const [number] = jsonSchema.anyOf ?? [];
  if (jsonSchema.maximum === undefined || typeof number !== 'object') return;
  number.maximum = jsonSchema.maximum;
  delete jsonSchema.maximum;
}

function withNotes({ jsonSchema }: { jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  boundNumbers({ jsonSchema });
  if (jsonSchema.additionalProperties === false) jsonSchema.patternProperties = NOTES;
}
