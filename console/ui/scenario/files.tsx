/** Uploads of a project: what its scenarios read by `file:`, `program:` and the like. */
import { signal, useSignal } from "@preact/signals";
import {
  DEFAULT_PROJECT,
  FILE_EXPECTED,
  FILE_NAME,
  PROJECT_EXPECTED,
  PROJECT_LETTERS_MAX,
  PROJECT_LIMITS,
  PROJECT_NAME,
} from "../../api/page_terms.ts";
import { api } from "../data/api.ts";
import { isOperator } from "../data/session.ts";
import { bytes } from "../figures.ts";
import { ask } from "../frame/dialogs.tsx";
import { useFetched } from "../frame/fetched.ts";
import { order, refuse, say } from "../frame/notice.tsx";
import { saveAs } from "../frame/save.ts";

const KEPT = "rackmesh-project";

/** Whose files scenarios read, in this browser. */
export const project = signal(localStorage.getItem(KEPT) ?? DEFAULT_PROJECT);

/** Changes with each upload: what a text reads may be there now. */
export const filesVersion = signal(0);

function choose(name: string): void {
  if (!PROJECT_NAME.test(name)) {
    return refuse(`"${name}" cannot name a project: expected ${PROJECT_EXPECTED}`);
  }
  localStorage.setItem(KEPT, name);
  project.value = name;
}

async function upload(files: readonly File[]): Promise<void> {
  for (const file of files) {
    if (!FILE_NAME.test(file.name)) {
      return refuse(`"${file.name}" cannot be uploaded: expected a name of ${FILE_EXPECTED}`);
    }
    if (file.size > PROJECT_LIMITS.fileBytes) {
      const most = bytes(PROJECT_LIMITS.fileBytes);
      return refuse(`${file.name} has ${bytes(file.size)}: expected ${most} at most`);
    }
    if (!await order(api.upload(project.value, file), () => `${file.name} is uploaded`)) return;
    filesVersion.value++;
  }
}

export function Files() {
  const { value, trouble } = useFetched(
    `${project.value} ${filesVersion.value}`,
    () => api.projectFiles(project.value),
  ).value;
  const isOver = useSignal(false);
  const files = value?.files ?? [];
  return (
    <details class="files" open={files.length > 0}>
      <summary>
        Files of project <strong>{project.value}</strong>
        <span class="quiet">
          · {files.length === 0 ? "none" : files.length}; a scenario names them as{" "}
          <code>file: data.bin</code> or <code>program: ./my.ts</code>
        </span>
      </summary>
      {trouble !== undefined && <p class="note refused">{trouble}</p>}
      <div
        class={`row drop${isOver.value ? " is-over" : ""}`}
        onDragOver={(event) => {
          event.preventDefault();
          isOver.value = true;
        }}
        onDragLeave={() => isOver.value = false}
        onDrop={(event) => {
          event.preventDefault();
          isOver.value = false;
          if (isOperator.value) void upload([...event.dataTransfer?.files ?? []]);
        }}
      >
        <label>
          Project{" "}
          <input
            name="project"
            value={project.value}
            size={12}
            maxLength={PROJECT_LETTERS_MAX}
            onChange={({ currentTarget }) => choose(currentTarget.value.trim())}
          />
        </label>
        {isOperator.value && (
          <label>
            Upload (or drop here){" "}
            <input
              type="file"
              multiple
              onChange={({ currentTarget }) => {
                const chosen = [...currentTarget.files ?? []];
                // So that the same file can be chosen again when it has changed.
                currentTarget.value = "";
                void upload(chosen);
              }}
            />
          </label>
        )}
      </div>
      {files.length > 0 && (
        <table class="wide list" aria-label={`Files of ${project.value}`}>
          <tbody>
            {files.map(({ name, bytes: length }) => (
              <tr key={name}>
                <td>
                  <code>{name}</code>
                </td>
                <td class="num">{bytes(length)}</td>
                <td class="num">
                  <button type="button" class="link" onClick={() => void save(name)}>Save</button>
                  {isOperator.value && (
                    <button
                      type="button"
                      class="link"
                      aria-label={`Delete ${name}`}
                      onClick={() => askToRemove(name, length)}
                    >
                      Delete
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </details>
  );
}

async function save(name: string): Promise<void> {
  try {
    saveAs(name, await (await api.projectFile(project.value, name)).blob());
    say(`${name} is saved`);
  } catch (error) {
    refuse(error);
  }
}

function askToRemove(name: string, length: number): void {
  ask({
    title: `Delete ${name}`,
    body: (
      <p>
        {bytes(length)} of project{" "}
        {project.value}, for good. Runs that have read it keep copies of their own.
      </p>
    ),
    act: "Delete it",
    stay: "Leave it",
    onSure: () => void remove(name),
  });
}

async function remove(name: string): Promise<void> {
  await order(api.removeProjectFile(project.value, name), () => `${name} is deleted`);
  filesVersion.value++;
}
