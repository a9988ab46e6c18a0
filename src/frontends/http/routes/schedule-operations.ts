import { z } from 'zod';
import { Occurrence, Schedule } from '../../../protocol/schedules/schedule.ts';
import { defineOperation, type HttpOperation, jsonAnswer, wholeNumber } from '../common/operation.ts';

const BudgetLine = z.object({
  setting: z.string().describe('Such as "budgets.day.cost".'),
  of: z.string().nullable().describe('Of a budget per session or per sender: of whom.'),
  limit: z.number(),
  spent: z.number(),
  unpriced: z.int().describe('Calls whose cost is unknown.'),
  until: z.string().describe('When its day or month ends, ISO 8601, UTC.'),
});

/** Only for those who may see the settings: what all spend together is no business of one sender. */
export const BUDGET_OPERATIONS: readonly HttpOperation[] = [
  defineOperation({
    ...{ method: 'get', path: '/api/budgets', id: 'getBudgets', summary: 'The budgets and what is spent of each' },
    answers: { 200: { describe: 'As `budgets` of agentctl usage --json.', schema: z.array(BudgetLine) } },
    async run({ client }) {
      const { reportBudgets } = await import('../../../client/inspect/budget-report.ts');
      const file = client.status()?.settings.file;
      const own = file === undefined || file === 'agentd.json' ? undefined : file;
      return jsonAnswer(reportBudgets(client.paths, new Date(), own).budgets);
    },
  }),
];

const ScheduleLine = z.object({
  name: z.string(),
  schedule: Schedule.nullable(),
  fault: z.string().nullable().describe('What is wrong with its file; then it does not run.'),
  next: z.string().nullable().describe('When it is due next, ISO 8601, UTC.'),
  last: Occurrence.nullable(),
});

const OfSchedule = z.object({ schedule: z.string().min(1).max(100).describe('Name of a schedule.') });

/** Seeing schedules, and running, pausing and resuming one. */
export const SCHEDULE_OPERATIONS: readonly HttpOperation[] = [
  defineOperation({
    ...{ method: 'get', path: '/api/schedules', id: 'listSchedules', summary: 'The schedules and when each is due' },
    answers: { 200: { describe: 'As agentctl schedule list --json.', schema: z.array(ScheduleLine) } },
    run: async ({ client }) => jsonAnswer((await client.schedules()).list()),
  }),
  defineOperation({
    ...{ method: 'get', path: '/api/schedules/{schedule}/history', id: 'scheduleHistory', params: OfSchedule },
    summary: 'What became of the due times of a schedule',
    query: z.strictObject({ last: wholeNumber(1, 500).optional().describe('This many; default 20.') }),
    answers: { 200: { describe: 'Newest first.', schema: z.array(Occurrence) } },
    problems: [404],
    run: async ({ client, params, query }) =>
      jsonAnswer((await client.schedules()).history(params.schedule, query.last ?? 20)),
  }),
  defineOperation({
    ...{ method: 'post', path: '/api/schedules/{schedule}', id: 'changeSchedule', params: OfSchedule },
    summary: 'Run a schedule now, pause it or resume it',
    body: z.strictObject({ action: z.enum(['run', 'pause', 'resume']) }),
    answers: { 202: { describe: 'The files are written; the daemon sees them within seconds.', schema: z.object({}) } },
    problems: [404, 422],
    async run({ client, params, body: { action } }) {
      const schedules = await client.schedules();
      if (action === 'run') await schedules.runNow(params.schedule);
      else await schedules.enable(params.schedule, action === 'resume');
      return jsonAnswer({}, 202);
    },
  }),
];
