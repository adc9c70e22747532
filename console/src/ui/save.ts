/** A value as a file in the reader's downloads. */

export function save(name: string, content: unknown, kind = "application/json"): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([typeof content === "string" ? content : JSON.stringify(content, null, 2)], { type: kind }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
