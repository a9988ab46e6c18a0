import { z } from 'zod';
import { ServerOfMail } from './channels.ts';
import { EnvVariableName } from './env-variable.ts';

/** What a notice is about. */
export const NoticeKind = z.enum(['done', 'failed', 'paused', 'waiting', 'owed']);
export type NoticeKind = z.infer<typeof NoticeKind>;

const WebAddress = z.url({ protocol: /^https?$/, error: 'expected an address with http:// or https://' }).max(2000);

/** An e-mail that each notice is sent as. */
const NotifyEmail = z.strictObject({
  ...{ to: z.email(), from: z.email(), smtp: ServerOfMail('smtp') },
  user: z.string().min(1).max(320).optional().describe('The login, if it is not `from`.'),
  password_env: EnvVariableName.optional().describe('The variable with the password.'),
});
export type NotifyEmail = z.infer<typeof NotifyEmail>;

const WAYS = ['webhook', 'url_env', 'command', 'email', 'push'] as const;

/** Who is notified, in `agentd.json`. */
export const NotifyTarget = z
  .strictObject({
    webhook: WebAddress.optional().describe('The address that each notice is sent to.'),
    url_env: EnvVariableName.optional().describe('The variable with that address, where the address is a secret.'),
    command: z
      .array(z.string().min(1).max(4000))
      .min(1)
      .max(50)
      .optional()
      .describe(
        'A program and its arguments, run for each notice: the notice as JSON is its input, AGENTD_TITLE and AGENTD_TEXT are in its environment, and exit code 0 accepts it.',
      ),
    email: NotifyEmail.optional().describe('An e-mail for each notice; needs the package nodemailer.'),
    push: z
      .literal(true)
      .optional()
      .describe('What the browsers get in which somebody has pressed "Notifications"; without such an entry, all.'),
    secret_env: EnvVariableName.optional().describe(
      'The variable with the key of the signature: X-Agentd-Signature is "sha256=" and the HMAC-SHA256 of the body.',
    ),
    as: z
      .enum(['json', 'ntfy', 'gotify', 'slack', 'discord'])
      .optional()
      .describe('The form of the body; default json, which is a notice as in docs/schemas/notice.schema.json.'),
    for: z
      .array(NoticeKind)
      .min(1)
      .optional()
      .describe(
        'What it is told: runs that ended (done, failed, paused), what waits for you, what is owed. Default all.',
      ),
    sessions: z.array(z.string().min(1).max(200)).min(1).optional().describe('Only of these sessions.'),
    quiet: z
      .string()
      .regex(/^([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d$/, 'expected two times of day, such as 22:00-07:00')
      .optional()
      .describe('From when to when notices are held back, such as "22:00-07:00", in the time zone of the daemon.'),
    repeat_min: z
      .int()
      .min(1)
      .max(1440)
      .optional()
      .describe('After so many minutes what waits for you is sent again, until it is answered, for a day at most.'),
  })
  .refine((target) => WAYS.filter((way) => target[way] !== undefined).length === 1, {
    message: `expected one of ${WAYS.map((way) => `\`${way}\``).join(', ')}`,
  });
export type NotifyTarget = z.infer<typeof NotifyTarget>;

/** Where `agentctl serve` is reached from outside, in `agentd.json`. */
export const PublicUrl = WebAddress.describe(
  'Where `agentctl serve` is reached from outside, such as https://agent.example.org: a notice of a waiting call has a link there that answers it.',
);
